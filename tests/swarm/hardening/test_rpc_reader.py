"""T2 and the reconnect loop: RPCs that cannot be read, or are too large."""

import contextlib

import pytest
import trio
from libp2p.network.stream.exceptions import StreamError
from libp2p.pubsub.pb import rpc_pb2

from swarmd.fair.bucket import Bucket
from swarmd.swarm import host
from swarmd.swarm.hardening import Verdict, rpc_reader
from tests.swarm.hardening.kit import (
    HARDENED,
    LONG_S,
    STOCK,
    TOPIC,
    becomes,
    both,
    connect,
    connect_in_topic,
    running,
    send_raw,
    send_rpc,
    signed_message,
    survives,
)

SCORES = host._score(same_ip_is_normal=True)
MALFORMED = [b"\x05hello", b"\x03\x0a\xff\xff", b"\x04\x12\x02\xff\xff"]


@both
@pytest.mark.parametrize("data", MALFORMED, ids=lambda data: data.hex())
async def test_host_outlives_a_malformed_rpc_unless_stock(kind, data):
    async def deed(victim, peer):
        await send_raw(peer, victim, data)

    assert await survives(kind, deed) is (kind == HARDENED)


@pytest.mark.parametrize(
    "data", [b"\xff" * 12, b"\xff\xff\xff\xff\x07", b"\x80"], ids=lambda data: data.hex()
)
async def test_bad_length_prefixes_are_survived(data):
    async def deed(victim, peer):
        await send_raw(peer, victim, data)

    assert await survives(HARDENED, deed)


@both
async def test_an_oversized_rpc_is_sent_again_and_again_unless_hardened(kind):
    """Both ends of one kind; only the receiver has the small limit."""
    slow = {"heartbeat_interval": 100}  # the message stays in the sender's cache
    async with (
        running(kind, max_inbound_rpc_size=20_000, router=slow) as receiver,
        running(kind, router=slow) as sender,
    ):
        await connect_in_topic(receiver, sender)
        num_streams = []
        read = receiver.pubsub.continuously_read_stream

        async def counted(stream):
            num_streams.append(stream)
            await read(stream)

        receiver.pubsub.continuously_read_stream = counted
        with trio.fail_after(LONG_S):
            await sender.pubsub.publish(TOPIC, b"x" * 700_000)
        loops = await becomes(lambda: len(num_streams) > 3, expected=kind == STOCK)
    assert loops is (kind == STOCK)


async def test_the_third_unreadable_rpc_closes_the_connection():
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        for _ in range(3):
            await send_raw(peer, victim, b"\x05hello")
        assert await becomes(lambda: peer.peer_id not in victim.host.get_connected_peers())
        assert victim.pubsub.counters["misframed_rpc"] == 3
        assert victim.pubsub.counters["peer_closed"] == 1


async def test_of_many_words_on_a_topic_the_last_one_counts():
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        changes = []
        victim.pubsub.handle_subscription = lambda peer, change: changes.append(change.subscribe)
        words = [{"subscribe": n % 2 == 0, "topicid": TOPIC} for n in range(101)]
        await send_rpc(peer, victim, rpc_pb2.RPC(subscriptions=words))
        assert await becomes(lambda: changes == [True])


@pytest.mark.parametrize("allowed", [None, {TOPIC}], ids=["any", "one"])
async def test_topics_of_other_swarms_are_kept_only_where_any_is_allowed(allowed):
    async with running(HARDENED, allowed_topics=allowed) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        names = ["x" * 100_000, TOPIC]
        await send_rpc(
            peer, victim, rpc_pb2.RPC(subscriptions=[{"subscribe": True, "topicid": name} for name in names])
        )
        assert await becomes(lambda: TOPIC in victim.pubsub.peer_topics)
        assert len(victim.pubsub.peer_topics) == (1 if allowed else 2)


async def test_who_leaves_and_joins_all_the_time_is_not_heard_any_more():
    async with running(HARDENED, router={"score_params": SCORES}) as victim, running(HARDENED) as peer:
        await connect_in_topic(victim, peer)
        for n in range(200):
            word = rpc_pb2.RPC(subscriptions=[{"subscribe": n % 2 == 1, "topicid": TOPIC}])
            await victim.pubsub._handle_frame(peer.peer_id, word.SerializeToString(), reading(), None)
        assert victim.pubsub.counters["graylisted"] > 0


async def test_a_graylisted_peers_rpcs_are_not_handled():
    async with running(HARDENED, router={"score_params": SCORES}) as victim, running(HARDENED) as peer:
        await connect_in_topic(victim, peer)
        victim.router.scorer.penalize_behavior(peer.peer_id, 100.0)
        handled = []
        victim.router.handle_graft = lambda *args: handled.append(args)
        await send_rpc(peer, victim, rpc_pb2.RPC(control={"graft": [{"topicID": TOPIC}]}))
        assert await becomes(lambda: victim.pubsub.counters["graylisted"] > 0)
        assert not handled


@pytest.mark.parametrize(
    ("flood", "num_honest"),
    [
        ({"control": {"graft": [{"topicID": TOPIC}] * 4}}, rpc_reader.CONTROL_MAX // 4),
        ({"control": {"prune": [{"topicID": TOPIC}] * 4}}, rpc_reader.CONTROL_MAX // 4),
        (
            {
                "subscriptions": [
                    {"subscribe": False, "topicid": TOPIC},
                    {"subscribe": True, "topicid": TOPIC},
                ]
            },
            rpc_reader.CONTROL_MAX,
        ),
    ],
    ids=["graft", "prune", "subscriptions"],
)
async def test_a_flood_of_control_is_dropped_and_told(flood, num_honest):
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        accused, num_handled, one = [], 0, reading()
        victim.pubsub.accuse = lambda *found: accused.append(found)
        await connect_in_topic(victim, peer)

        def handled(*arguments):
            nonlocal num_handled
            num_handled += 1

        async def handled_rpc(*arguments):
            handled()

        victim.pubsub.handle_subscription = handled
        victim.router.handle_rpc = handled_rpc
        frame = rpc_pb2.RPC(**flood).SerializeToString()
        for _ in range(num_honest + 50):
            await victim.pubsub._handle_frame(peer.peer_id, frame, one, None)
        assert num_honest <= num_handled < num_honest + 50
        assert set(accused) == {(peer.peer_id, "control_flood")}
        assert victim.pubsub.counters["control_flood"] == len(accused) == num_honest + 50 - num_handled


async def test_what_a_beat_needs_is_never_a_flood(autojump_clock):
    """One GRAFT and one PRUNE a second, for an hour."""
    control = Bucket.full(rpc_reader.CONTROL_RATE, rpc_reader.CONTROL_MAX, trio.current_time())
    for _ in range(3600):
        assert control.take(2, trio.current_time())
        await trio.sleep(1)


async def test_a_peer_has_no_more_than_four_streams():
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        for _ in range(6):
            with contextlib.suppress(StreamError):  # reset while it is written
                await send_rpc(peer, victim, rpc_pb2.RPC())
        assert await becomes(lambda: victim.pubsub.counters["too_many_streams"] >= 2)
        assert victim.pubsub._readings[peer.peer_id].num_streams == 4


async def test_a_peer_whose_rpcs_took_too_long_waits_until_they_are_paid_for(autojump_clock):
    budget = reading(rate=0.05)
    budget.budget.charge(1.0, trio.current_time())
    began_s = trio.current_time()
    await budget.paid_off()
    assert trio.current_time() - began_s == pytest.approx((0.9 + 0.05) / 0.05)


async def test_a_fresh_stream_brings_no_fresh_budget():
    async with running(HARDENED) as victim, running(HARDENED) as peer:
        await connect(peer, victim)
        stream = await send_raw(peer, victim, b"")
        reading = victim.pubsub._readings[peer.peer_id]
        reading.budget.charge(10.0, trio.current_time())
        await stream.close()
        await peer.host.disconnect(victim.peer_id)
        assert await becomes(lambda: not reading.num_streams)
        assert victim.pubsub._readings[peer.peer_id].budget.level < -9


async def test_budgets_that_are_full_again_are_forgotten(monkeypatch):
    monkeypatch.setattr(rpc_reader, "READINGS_MAX", 2)
    async with running(HARDENED) as victim:
        victim.pubsub._reading_of("in debt").budget.charge(10.0, trio.current_time())
        for peer in "abc":
            victim.pubsub._reading_of(peer)
        assert set(victim.pubsub._readings) == {"in debt", "c"}


async def test_a_peer_within_its_budget_does_not_wait(autojump_clock):
    began_s = trio.current_time()
    await reading().paid_off()
    assert trio.current_time() == began_s


async def test_tiny_rpcs_are_charged_though_each_takes_nearly_nothing():
    one = reading()
    for _ in range(10_000):
        with one.charged():
            pass
    assert not one.budget.holds(0.0, trio.current_time())


def reading(rate=rpc_reader.RPC_CPU_RATE):
    """What a peer's streams share, with nothing read yet."""
    now = trio.current_time()
    return rpc_reader._Reading(
        Bucket.full(rate, rpc_reader.RPC_CPU_S_MAX, now),
        Bucket.full(rpc_reader.CONTROL_RATE, rpc_reader.CONTROL_MAX, now),
    )


async def test_a_slow_validator_slows_the_reader_down_and_loses_nothing():
    async with running(HARDENED, validation_timeout=10) as receiver, running(HARDENED) as sender:
        go, num_waiting, judged = trio.Event(), [], []

        async def slow(forwarder, message):
            num_waiting.append(message)
            await go.wait()
            judged.append(message)
            return Verdict.ACCEPT

        receiver.pubsub.set_validator(TOPIC, slow)
        await receiver.pubsub.subscribe(TOPIC)
        await connect(sender, receiver)
        rpc = rpc_pb2.RPC(publish=[signed_message(sender) for _ in range(40)])
        await send_rpc(sender, receiver, rpc)
        assert await becomes(lambda: len(num_waiting) == 16)
        go.set()
        assert await becomes(lambda: len(judged) == 40)
