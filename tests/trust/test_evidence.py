"""Evidence: only rules that no honest node can break, and only against those who did it."""

import json
from pathlib import Path

import pytest

from swarmd.protocol.manifest import Manifest, load_manifest
from swarmd.protocol.rules import RULES, VERDICT_OF, Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from swarmd.protocol.wire import decode_message
from swarmd.questions.scorers import Reason
from swarmd.trust.evidence import POINTS, SIGNED_RULES, blame, found_by_scorer, has_finding

FORWARDER = b"f" * 32
MANIFEST = load_manifest("tiny")
AUTHOR = Identity.from_seed(b"a" * 32)
NOW_MS = 1_700_000_000_000


def message(num_completions: int, *, swarm: bytes = MANIFEST.digest) -> bytes:
    """A batch of one rollout; one completion is fewer than the manifest takes."""
    completions = (Completion(text="4", finished=True),) * num_completions
    batch = RolloutBatch(rollouts=(Rollout(dataset=0, counter=0, completions=completions),))
    return AUTHOR.seal(batch, created_ms=NOW_MS, policy="", policy_version=0, swarm=swarm)


def judged(data: bytes) -> tuple[str, list[tuple[bytes, str]]]:
    """The rule that spoke, and who is to blame."""
    rule = validate(data, now_ms=NOW_MS, seen=Seen(), manifest=MANIFEST).rule
    return rule, list(blame(rule, data, forwarder=FORWARDER, manifest=MANIFEST))


@pytest.mark.parametrize("rule", [rule for rule in RULES if VERDICT_OF[rule] is not Verdict.REJECT])
def test_what_is_not_rejected_is_no_evidence(rule: str) -> None:
    assert blame(rule, message(1), forwarder=FORWARDER, manifest=MANIFEST) == []


@pytest.mark.parametrize("rule", ["age_future", "age_stale", "duplicate", "internal"])
def test_rules_that_look_at_our_clock_our_memory_or_our_bugs_reject_nothing(rule: str) -> None:
    assert VERDICT_OF[rule] is Verdict.IGNORE


def test_another_version_is_its_forwarders_since_the_topic_names_the_version() -> None:
    assert blame("version", b"", forwarder=FORWARDER, manifest=MANIFEST) == [(FORWARDER, "forwarded_reject")]


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x01" * 70_000, message(8)[:-1]], ids=len)
def test_garbage_is_its_forwarders(data: bytes) -> None:
    assert judged(data)[1] == [(FORWARDER, "forwarded_reject")]


def test_what_an_author_signed_and_a_rule_rejects_is_both_their_fault() -> None:
    rule, blamed = judged(message(1))
    assert rule == "completions_count"
    assert blamed == [(AUTHOR.public_key, "signed_reject"), (FORWARDER, "forwarded_reject")]


def test_who_forwards_its_own_is_blamed_once() -> None:
    blamed = blame("completions_count", message(1), forwarder=AUTHOR.public_key, manifest=MANIFEST)
    assert blamed == [(AUTHOR.public_key, "signed_reject")]


def test_a_batch_that_names_no_swarm_may_be_sound_in_another() -> None:
    assert judged(message(1, swarm=b""))[1] == [(FORWARDER, "forwarded_reject")]


def test_a_thief_cannot_have_the_author_blamed_for_a_wrong_body() -> None:
    sound = message(8)
    rule, blamed = judged(sound[:-1] + bytes([sound[-1] ^ 1]))
    assert (rule, blamed) == ("body_digest", [(FORWARDER, "forwarded_reject")])


def test_nor_for_a_header_that_it_never_signed() -> None:
    sound = message(8)
    signature = decode_message(sound, MANIFEST.limits).signature
    rule, blamed = judged(sound.replace(signature, bytes(64)))
    assert (rule, blamed) == ("signature", [(FORWARDER, "forwarded_reject")])


def cases() -> list[tuple[str, str, bytes]]:
    path = Path(__file__).parent.parent.parent / "proto" / "vectors" / "rules.json"
    vectors = json.loads(path.read_text())
    return [(case["name"], case["rule"], bytes.fromhex(case["message"])) for case in vectors["cases"]]


SIGNED_CASES = [case for case in cases() if case[1] in SIGNED_RULES]


def test_the_vectors_have_most_of_these_rules() -> None:
    assert len({rule for _, rule, _ in SIGNED_CASES}) >= len(SIGNED_RULES) - 1


@pytest.mark.parametrize(("name", "rule", "data"), SIGNED_CASES, ids=lambda value: str(value)[:40])
def test_a_rule_that_blames_the_author_speaks_only_under_a_valid_signature(
    name: str, rule: str, data: bytes
) -> None:
    path = Path(__file__).parent.parent.parent / "proto" / "vectors" / "rules.json"
    vectors = json.loads(path.read_text())
    manifest = Manifest.from_bytes(bytes.fromhex(vectors["manifest"]))
    signature = decode_message(data, manifest.limits).signature
    forged = data.replace(signature, bytes(64))
    outcome = validate(forged, now_ms=vectors["now_ms"], seen=Seen(), manifest=manifest)
    assert outcome.rule == "signature"


def test_every_signed_rule_comes_after_the_signature() -> None:
    assert {"body_digest", "signature", "author_key", "message_size"}.isdisjoint(SIGNED_RULES)


@pytest.mark.parametrize("reason", [reason.name.lower() for reason in Reason])
def test_what_the_scorer_says_is_evidence_only_when_it_was_attacked(reason: str) -> None:
    found = found_by_scorer({reason: 1})
    assert found == ([reason] if reason in POINTS else [])


@pytest.mark.parametrize(
    ("reasons_G", "found"),
    [(["", ""], False), (["no_answer", ""], False), ([], False), (["", "refused"], True), (["cpu_limit"], True)],
)  # fmt: skip
def test_only_a_missing_answer_is_no_finding(reasons_G: list[str], found: bool) -> None:
    assert has_finding(reasons_G) == found
