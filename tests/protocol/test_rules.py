"""What the vectors cannot show: the memory, the order of costs, bugs of ours, and that prose and code name the same rules."""

import re
from pathlib import Path

import pytest

from swarmd.protocol import rules, wire
from swarmd.protocol.rules import RULES, VERDICT_OF, Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.types import VerifiedBatch
from swarmd.protocol.wire import decode_message
from tests.protocol.case import BODY, GOOD
from tests.protocol.cases import all_cases
from tests.protocol.craft import (
    ALICE,
    MALLORY,
    MANIFEST,
    NOW_MS,
    plain_header,
    signed,
    stored_frame,
    with_body,
)

ROOT = Path(__file__).parents[2]
AGE_RULES_ON = RULES[: RULES.index("body_frame")]


def judge(message: bytes, seen: Seen | None = None) -> rules.Outcome:
    return validate(message, now_ms=NOW_MS, seen=Seen() if seen is None else seen, manifest=MANIFEST)


def test_an_accepted_batch_holds_the_bytes_as_they_came():
    batch = judge(GOOD).batch
    assert isinstance(batch, VerifiedBatch)
    assert batch.signed.data == GOOD
    assert batch.signed.body == BODY
    assert GOOD[:67] + batch.signed.header_bytes + batch.signed.body == GOOD


@pytest.mark.parametrize(
    "case",
    [c for c in all_cases() if c.rule in AGE_RULES_ON and not c.before],
    ids=lambda c: f"{c.rule}: {c.name}",
)
def test_nothing_is_remembered_before_signature_and_digest_hold(case):
    seen = Seen()
    judge(case.message, seen)
    assert len(seen) == 0


def test_a_signed_batch_with_bad_contents_is_judged_once():
    seen, bad = Seen(), with_body(stored_frame(b"\xc1"))
    assert judge(bad, seen).rule == "body_decode"
    assert judge(bad, seen).rule == "duplicate"


@pytest.mark.parametrize("later_s", [0, MANIFEST.limits.age_s_max, MANIFEST.limits.age_s_max + 1, 10**6])
def test_a_message_is_remembered_until_it_is_too_old(later_s):
    """Two validations by clocks as far apart as the rules allow; there is no moment at which a replay would be accepted."""
    seen, created_ms = Seen(), decode_message(GOOD, MANIFEST.limits).header.created_ms
    early_ms = created_ms - MANIFEST.limits.skew_s_max * 1000
    assert validate(GOOD, now_ms=early_ms, seen=seen, manifest=MANIFEST).verdict is Verdict.ACCEPT
    again = validate(GOOD, now_ms=created_ms + later_s * 1000, seen=seen, manifest=MANIFEST)
    assert again.rule == ("age_stale" if later_s > MANIFEST.limits.age_s_max else "duplicate")


def test_a_thief_does_not_silence_the_author():
    seen = Seen()
    stolen = signed(plain_header(BODY, MALLORY), BODY, MALLORY)
    assert judge(stolen, seen).verdict is Verdict.ACCEPT
    assert judge(GOOD, seen).verdict is Verdict.ACCEPT


def test_stolen_counters_name_other_questions():
    assert MANIFEST.question_seed(ALICE.public_key, 0, 40) != MANIFEST.question_seed(
        MALLORY.public_key, 0, 40
    )


def test_an_unsigned_body_is_never_decompressed(monkeypatch):
    opened = []
    monkeypatch.setattr(rules, "decode_body", lambda *args: opened.append(args))
    judge(GOOD[:3] + bytes(64) + GOOD[67:])
    assert opened == []


def test_a_stale_message_costs_no_signature_check(monkeypatch):
    checked = []
    monkeypatch.setattr(rules, "verify", lambda *args: checked.append(args))
    judge(with_body(BODY, created_ms=0))
    assert checked == []


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, RecursionError, KeyError])
def test_a_bug_of_ours_punishes_nobody(monkeypatch, error):
    def fail(*args):
        raise error("text that must not be shown")

    monkeypatch.setattr(rules, "verify", fail)
    outcome = judge(GOOD)
    assert (outcome.verdict, outcome.rule, outcome.detail) == (Verdict.IGNORE, "internal", error.__name__)


def test_cancellation_is_no_bug(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(rules, "verify", interrupted)
    with pytest.raises(KeyboardInterrupt):
        judge(GOOD)


@pytest.mark.parametrize("case", all_cases(), ids=lambda c: f"{c.rule}: {c.name}")
def test_details_are_short_and_printable(case):
    detail = judge(case.message).detail
    assert len(detail) < 200
    assert detail.isprintable()


def test_an_unknown_fields_name_is_not_repeated():
    outcome = judge(with_body(BODY, **{"\x1b[31m": 1}))
    assert outcome.rule == "header_fields"
    assert "\x1b" not in outcome.detail


def test_every_rule_is_commented_where_it_is_checked():
    code = Path(rules.__file__).read_text() + Path(wire.__file__).read_text()
    commented = re.findall(r"# \[(REJECT|IGNORE)\] (\w+)", code)
    assert sorted((rule, Verdict[verdict].value) for verdict, rule in commented) == sorted(
        (rule, verdict.value) for rule, verdict in VERDICT_OF.items() if rule not in ("accepted", "internal")
    )


def test_the_prose_has_every_rule_in_order_with_its_verdict():
    prose = (ROOT / "proto" / "RULES.md").read_text()
    headings = re.findall(r"^## (\w+)\n\[(\w+)\]", prose, re.MULTILINE)
    assert headings == [(rule, verdict.name) for rule, verdict in VERDICT_OF.items()]


def test_only_the_rules_make_verified_batches():
    makers = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "swarmd").rglob("*.py"))
        if re.search(r"\bVerifiedBatch\(", path.read_text())
    ]
    assert makers == ["swarmd/protocol/rules.py"]
