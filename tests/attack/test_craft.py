"""What the attackers send is what it is meant to be: some passes the rules, the rest breaks the rule that it aims at."""

import pytest

from swarmd.protocol.manifest import load_manifest
from swarmd.protocol.rules import Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import Identity
from tests.attack import craft

MANIFEST = load_manifest("tiny")
MALLORY, ALICE = (Identity.from_seed(bytes([n]) * 32) for n in (1, 2))


def rule(data: bytes) -> str:
    return validate(data, now_ms=craft.now_ms(), seen=Seen(), manifest=MANIFEST).rule


def test_a_batch_by_hand_passes_the_rules() -> None:
    assert (
        rule(craft.batch(MALLORY, MANIFEST, [craft.rollout(0, 3, ["<answer>1</answer>", "x"])])) == "accepted"
    )


def test_the_dearest_message_is_small_and_passes_the_rules() -> None:
    data = craft.empty_batch(MALLORY, MANIFEST, 0)
    assert rule(data) == "accepted"
    assert len(data) < 1000


@pytest.mark.parametrize("number", range(len(craft.bombs())))
def test_a_signed_bomb_is_rejected_whatever_it_is(number: int) -> None:
    data = craft.sealed(MALLORY, craft.bombs()[number])
    outcome = validate(data, now_ms=craft.now_ms(), seen=Seen(), manifest=MANIFEST)
    assert outcome.verdict is Verdict.REJECT
    assert outcome.rule.startswith("body_")


def test_a_message_in_anothers_name_breaks_the_signature() -> None:
    assert rule(craft.sealed(ALICE, craft.bombs()[0], signer=MALLORY)) == "signature"
