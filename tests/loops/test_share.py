"""Share: signed, sent, counted; a network that is away costs a batch, never the loop."""

import trio
import trio.testing

from swarmd.errors import ChildDied, LocalError
from swarmd.loops.answers import OwnRollouts
from swarmd.protocol.rules import Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.types import Completion, Rollout
from tests.loops.fakes import GOOD, MS
from tests.loops.parts import MANIFEST, ME, Loops


def own(num: int = 2, *, text: str = GOOD, version: int = 3) -> OwnRollouts:
    completions = (Completion(text=text, finished=True),) * 2
    return OwnRollouts(
        tuple(Rollout(dataset=0, counter=counter, completions=completions) for counter in range(num)),
        MS,
        version,
    )


async def share(loops: Loops, *batches: OwnRollouts) -> None:
    """Share these and end."""
    into, outbox = trio.open_memory_channel[OwnRollouts](len(batches))
    for batch in batches:
        into.send_nowait(batch)
    into.close()
    await loops.share(outbox).run()


async def test_what_is_sent_passes_the_rules_of_every_node() -> None:
    loops = Loops()
    await share(loops, own())
    (sent,) = loops.network.asked("publish")
    outcome = validate(sent["data"], now_ms=MS, seen=Seen(), manifest=MANIFEST)
    assert outcome.verdict is Verdict.ACCEPT
    assert outcome.batch is not None
    assert outcome.batch.signed.header.author == ME.public_key
    assert outcome.batch.signed.header.policy_version == 3
    assert (loops.progress.history.num_shared, loops.count("gossip_published_total", result="ok")) == (2, 1)


async def test_a_batch_too_large_for_one_message_is_split() -> None:
    loops = Loops()
    rollouts = tuple(
        Rollout(
            dataset=0,
            counter=counter,
            completions=tuple(
                Completion(text=bytes((counter * 31 + i * i + g) % 94 + 33 for i in range(9000)).decode(), finished=True)
                for g in range(2)
            ),
        )
        for counter in range(40)
    )  # fmt: skip
    await share(loops, OwnRollouts(rollouts, MS, 0))
    messages = [args["data"] for args in loops.network.asked("publish")]
    assert max(map(len, messages)) <= MANIFEST.limits.message_bytes_max
    assert loops.progress.history.num_shared == 40


async def test_a_rollout_too_large_for_any_message_is_counted_and_left_out() -> None:
    loops = Loops()
    too_large = own(1, text="x" * (MANIFEST.limits.completion_bytes_max + 1))
    await share(loops, too_large, own(1))
    assert loops.count("buffer_discarded_total", reason="too_large") == 1
    assert loops.progress.history.num_shared == 1


async def test_nobody_there_is_told_apart_from_somebody() -> None:
    loops = Loops()
    loops.network.num_peers = 0
    await share(loops, own())
    assert loops.count("gossip_published_total", result="no_peers") == 1


async def test_a_network_that_comes_back_gets_the_batch(autojump_clock: trio.testing.MockClock) -> None:
    loops = Loops()
    loops.network.fail("publish", ChildDied("gone"), LocalError("not yet"))
    await share(loops, own())
    assert loops.count("gossip_published_total", result="ok") == 1
    assert len({args["data"] for args in loops.network.asked("publish")}) == 1
    assert loops.network.call_times_s == [0, 1, 2]


async def test_a_network_that_stays_away_costs_one_batch(autojump_clock: trio.testing.MockClock) -> None:
    loops = Loops()
    loops.network.fail("publish", *[ChildDied("gone")] * 3)
    await share(loops, own(), own(1))
    assert loops.count("gossip_published_total", result="failed") == 1
    assert loops.count("gossip_published_total", result="ok") == 1
    assert loops.progress.history.num_shared == 1


async def test_generation_goes_on_without_a_network(autojump_clock: trio.testing.MockClock) -> None:
    loops = Loops()
    loops.network.fail("publish", *[ChildDied("gone")] * 300)
    into, outbox = trio.open_memory_channel[OwnRollouts](2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.generate(outbox=into).run)
        nursery.start_soon(loops.share(outbox).run)
        await loops.update(rounds_max=10).run()
        nursery.cancel_scope.cancel()
    assert loops.progress.round == 10
    assert loops.count("gossip_published_total", result="failed") >= 6
    assert loops.progress.history.num_shared == 0
