"""Three verdicts, and who is charged."""

import pytest
import trio

from swarmd.swarm.hardening import Verdict
from tests.swarm.hardening.kit import HARDENED, STOCK, TOPIC, both, running, signed_message


def charged(node, peer):
    return node.router.scorer.invalid_messages[peer.peer_id][TOPIC] > 0


@both
async def test_our_slowness_is_not_charged_to_the_peer_unless_stock(kind):
    async def never(forwarder, message):
        await trio.sleep_forever()

    async with running(kind, validation_timeout=0.05) as node, running(kind) as peer:
        if kind == STOCK:
            node.pubsub.set_topic_validator(TOPIC, never, True)
        else:
            node.pubsub.set_validator(TOPIC, never)
        await node.pubsub.push_msg(peer.peer_id, signed_message(peer))
        assert charged(node, peer) is (kind == STOCK)


async def judged(verdict):
    """Let a validator answer this to two copies: the counters, whether the peer was charged, deliveries, calls of the validator."""
    calls, delivered = [], []

    async def validator(forwarder, message):
        calls.append(forwarder)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    async with running(HARDENED) as node, running(HARDENED) as peer:
        node.pubsub.set_validator(TOPIC, validator)
        node.pubsub.notify_subscriptions = delivered.append
        message = signed_message(peer)
        for _ in range(2):
            await node.pubsub.push_msg(peer.peer_id, message)
        return node.pubsub.counters, charged(node, peer), len(delivered), len(calls)


@pytest.mark.parametrize(
    ("verdict", "is_charged", "num_delivered"),
    [(Verdict.ACCEPT, False, 1), (Verdict.REJECT, True, 0), (Verdict.IGNORE, False, 0)],
)
async def test_each_verdict_is_final_and_does_what_it_says(verdict, is_charged, num_delivered):
    counters, was_charged, num, num_calls = await judged(verdict)
    assert (was_charged, num, num_calls) == (is_charged, num_delivered, 1)
    assert counters[verdict.name.lower()] == 1


async def test_a_failing_validator_charges_nobody_and_may_be_asked_again():
    counters, was_charged, num, num_calls = await judged(KeyError("bug"))
    assert (was_charged, num, num_calls) == (False, 0, 2)
    assert counters["validator_error"] == 2


async def test_topics_without_a_validator_are_accepted():
    async with running(HARDENED) as node, running(HARDENED) as peer:
        assert await node.pubsub.judge(peer.peer_id, signed_message(peer)) is Verdict.ACCEPT


async def test_a_stock_validator_still_rejects():
    async with running(HARDENED) as node, running(HARDENED) as peer:
        node.pubsub.set_topic_validator(TOPIC, lambda forwarder, message: False, False)
        assert await node.pubsub.judge(peer.peer_id, signed_message(peer)) is Verdict.REJECT
        assert charged(node, peer)
