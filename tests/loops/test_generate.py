"""Generate: own questions only, counters spent once, sharing that pushes back, failures that are waited out."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from swarmd.clients.policy import Generated
from swarmd.errors import ChildDied, DiskFull, LocalError
from swarmd.files.datadir import DataDir
from swarmd.loops.answers import OwnRollouts
from swarmd.node.problems import at_a_glance
from swarmd.protocol.rules import validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.types import COMPLETION_BYTES_MAX, RolloutBatch
from tests.loops.fakes import BAD, GOOD, MS
from tests.loops.parts import MANIFEST, ME, Loops

NONE_HELD_OUT = MANIFEST.model_copy(update={"held_out_per_mille": 0})
HALF_HELD_OUT = MANIFEST.model_copy(update={"held_out_per_mille": 500})


async def test_a_batch_goes_to_the_swarm_and_scored_to_the_update() -> None:
    loops = Loops()
    outbox, shared = trio.open_memory_channel[OwnRollouts](1)
    await loops.generate(outbox=outbox).once()
    own = await loops.progress.take_own()
    assert own is not None
    assert [rollout.rewards_G for rollout in own.rollouts] == [[1.0, 0.0]] * 4
    assert [c.text for c in shared.receive_nowait().rollouts[0].completions] == [GOOD, BAD]
    assert all(not r.external and r.author == ME.public_key for r in own.rollouts)


async def test_no_held_out_question_is_generated_on() -> None:
    loops = Loops(manifest=HALF_HELD_OUT)
    for _ in range(20):
        await loops.generate().once()
    prompts = [prompt for args in loops.generator.asked("generate") for prompt in args["prompts"]]
    assert len(prompts) == 80
    assert not any(HALF_HELD_OUT.is_held_out(prompt) for prompt in prompts)
    assert len(loops.reserved) > 100


async def test_counters_are_reserved_before_anything_is_asked() -> None:
    loops = Loops()
    loops.scorer.fail("questions", ChildDied("gone"))
    with pytest.raises(ChildDied):
        await loops.generate().once()
    assert loops.reserved == [0, 1, 2, 3]


async def test_counters_of_a_lost_batch_are_never_used_again() -> None:
    loops = Loops(manifest=NONE_HELD_OUT)
    loops.generator.fail("generate", ChildDied("gone"))
    with pytest.raises(ChildDied):
        await loops.generate().once()
    await loops.generate().once()
    first, second = loops.scorer.asked("questions")
    assert set(first["addresses"]).isdisjoint(second["addresses"])


async def test_a_counter_that_cannot_be_written_down_is_not_used() -> None:
    loops = Loops()

    def full(num: int) -> int:
        raise DiskFull("no space")

    generate = loops.generate()
    generate.ask.reserve_counters = full
    with pytest.raises(DiskFull):
        await generate.once()
    assert not loops.generator.calls


async def test_rollouts_are_shared_before_they_are_scored() -> None:
    loops = Loops()
    outbox, shared = trio.open_memory_channel[OwnRollouts](1)
    loops.scorer.fail("score", LocalError("the scorer is ill"))
    with pytest.raises(LocalError):
        await loops.generate(outbox=outbox).once()
    assert len(shared.receive_nowait().rollouts) == 4


async def test_a_full_outbox_holds_generation_up(autojump_clock: trio.testing.MockClock) -> None:
    loops = Loops(staleness_max=16)
    outbox, shared = trio.open_memory_channel[OwnRollouts](1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.generate(outbox=outbox).run)
        await trio.testing.wait_all_tasks_blocked()
        assert len(loops.generator.asked("generate")) == 2
        shared.receive_nowait()
        await trio.testing.wait_all_tasks_blocked()
        assert len(loops.generator.asked("generate")) == 3
        nursery.cancel_scope.cancel()


async def test_failures_are_retried_ever_more_slowly(autojump_clock: trio.testing.MockClock) -> None:
    loops = Loops()
    loops.generator.fail("generate", *[LocalError("CUDA error")] * 8)
    with trio.move_on_after(200):
        await loops.generate().run()
    times_s = loops.generator.call_times_s
    assert [b - a for a, b in pairwise(times_s)] == [1, 2, 4, 8, 16, 30, 30, 30]


async def test_a_success_starts_the_backoff_over(autojump_clock: trio.testing.MockClock) -> None:
    loops = Loops(staleness_max=16)
    broken = LocalError("no")
    loops.generator.fail("generate", broken, broken)
    loops.scorer.fail("score", broken)
    with trio.move_on_after(4.5):
        await loops.generate().run()
    # two lost generations, one lost scoring (0, 1, 3 s), then batches until the pool is full
    assert loops.generator.call_times_s[:3] == [0, 1, 3]
    assert loops.progress.shown.generate_error is broken


async def test_the_operator_sees_failing_generation_until_it_works(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops()
    loops.generator.fail("generate", LocalError("CUDA error", fix="reboot"))
    with trio.move_on_after(0.5):
        await loops.generate().run()
    (warning,) = [
        w
        for w in at_a_glance(loops.progress, {}, DataDir(Path("data")), solo=False)
        if w.code == "generation_failing"
    ]
    assert "CUDA error" in warning.text
    assert warning.fix == "reboot"
    with trio.move_on_after(5):
        await loops.generate().run()
    assert "generation_failing" not in {
        w.code for w in at_a_glance(loops.progress, {}, DataDir(Path("data")), solo=False)
    }


async def test_our_own_mistakes_are_not_retried() -> None:
    loops = Loops()
    loops.scorer.reward_of = lambda text: [][0]
    with pytest.raises(IndexError):
        await loops.generate().run()


async def test_tokens_and_endings_are_counted() -> None:
    loops = Loops()
    await loops.generate().once()
    assert loops.count("generate_tokens_total", kind="prompt") == 12
    assert loops.count("generate_tokens_total", kind="completion") == 16
    assert loops.count("generate_completions_total", finish="stop") == 8
    assert loops.count("generate_completions_total", finish="length") == 0


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf, None])
async def test_a_logprob_that_is_no_number_is_not_claimed(value: float | None) -> None:
    loops = Loops()
    honest = loops.generator.generate

    def generate(**args: Any) -> Generated:
        result = honest(**args)
        first = result.completions_RG[0]
        first[0] = first[0]._replace(logprob_sum=value)
        return result

    loops.generator.generate = generate  # type: ignore[method-assign]
    outbox, shared = trio.open_memory_channel[OwnRollouts](1)
    await loops.generate(outbox=outbox).once()
    assert shared.receive_nowait().rollouts[0].completions[0].logprob_sum is None


async def test_log_probs_of_tokens_stay_in_this_node() -> None:
    loops = Loops()
    outbox, shared = trio.open_memory_channel[OwnRollouts](1)
    await loops.generate(outbox=outbox).once()
    own = loops.progress.pool.take().rollouts[0].completions[0]
    assert own.token_logps == (-0.5, -0.5)
    message = ME.seal(
        RolloutBatch(rollouts=shared.receive_nowait().rollouts),
        created_ms=MS,
        policy="fake",
        policy_version=0,
        swarm=MANIFEST.digest,
    )
    accepted = validate(message, now_ms=MS, seen=Seen(), manifest=MANIFEST).batch
    assert accepted is not None
    sent = accepted.batch.rollouts[0].completions[0].model_dump()
    assert set(sent) == {"text", "finished", "logprob_sum", "num_tokens"}


async def test_an_engine_that_measures_nothing_is_used_all_the_same() -> None:
    loops = Loops()
    honest = loops.generator.generate

    def generate(**args: Any) -> Generated:
        result = honest(**args)
        completions_RG = [[c._replace(token_logps=None) for c in row] for row in result.completions_RG]
        return result._replace(completions_RG=completions_RG)

    loops.generator.generate = generate  # type: ignore[method-assign]
    await loops.generate().once()
    assert loops.progress.pool.take().rollouts[0].completions[0].token_logps is None


@pytest.mark.parametrize(("spread_min", "num_informative"), [(0.05, 0), (0.01, 4), (0.0, 4)])
async def test_crumbs_of_reward_are_no_signal(spread_min: float, num_informative: int) -> None:
    loops = Loops()
    loops.scorer.reward_of = lambda text: 0.05 if text == GOOD else 0.02
    await replace(loops.generate(), reward_spread_min=spread_min).once()
    own = await loops.progress.take_own()
    assert own is not None
    assert own.num_informative == num_informative
    assert own.fresh.reward == pytest.approx(0.035)


async def test_own_text_longer_than_the_wire_allows_is_learnt_from_and_not_shared() -> None:
    loops = Loops()
    loops.generator.texts = [" " * (COMPLETION_BYTES_MAX + 1), GOOD]
    outbox, shared = trio.open_memory_channel[OwnRollouts](1)
    await loops.generate(outbox=outbox).once()
    assert shared.receive_nowait().rollouts == ()
    assert loops.count("buffer_discarded_total", reason="too_large") == 4
    assert len(loops.progress.pool) == 1


async def test_a_network_that_stays_away_costs_the_sharing_and_not_the_training(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # given an outbox that nobody empties
    loops = Loops(staleness_max=9)
    outbox, _shared = trio.open_memory_channel[OwnRollouts](1)
    generate = loops.generate(outbox=outbox)
    # when
    for _ in range(3):
        await generate.once()
    # then the two that did not fit are counted, and all three are there to be trained on
    assert loops.count("gossip_published_total", result="failed") == 2
    assert len(loops.progress.pool) == 3


async def test_a_network_that_is_kept_busy_costs_a_tenth_of_the_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(staleness_max=9)
    outbox, shared = trio.open_memory_channel[OwnRollouts](1)
    generate = loops.generate(outbox=outbox)

    async def take_one_in_five_seconds() -> None:
        while True:
            await trio.sleep(5)
            await shared.receive()

    num = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_one_in_five_seconds)
        while trio.current_time() < 1000:
            await generate.once()
            loops.progress.pool.take()
            loops.progress.pool.finish()
            await trio.sleep(1)  # the rest of a round
            num += 1
        nursery.cancel_scope.cancel()
    assert num >= 880
    assert (
        loops.count("gossip_published_total", result="failed") < num - 190
    )  # what there was room for was sent
