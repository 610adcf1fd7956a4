"""Ingest: what a stranger sent is checked, scored here and stored, or counted by why it was not."""

import math
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from swarmd.clients.scorer import Address
from swarmd.errors import ChildDied, DiskFull, LocalError, StateError
from swarmd.experience.buffer import AddResult
from tests.experience.batches import open_buffer
from tests.loops.fakes import MS
from tests.loops.parts import MANIFEST, ME, OTHER, Loops, own_batch, sealed


async def ingest(loops: Loops, *messages: bytes) -> None:
    """Ingest these and end."""
    into, inbox = trio.open_memory_channel[bytes](len(messages))
    for message in messages:
        into.send_nowait(message)
    into.close()
    await loops.ingest(inbox).run()


def discarded(loops: Loops) -> dict[str, float]:
    """What was discarded, by reason."""
    samples = next(iter(loops.metrics.buffer_discarded.collect())).samples
    return {s.labels["reason"]: s.value for s in samples if s.name.endswith("_total") and s.value}


def counters_held_out(num: int, *, held_out: bool) -> list[int]:
    """Counters of OTHER's questions on dataset 0 that are (not) held out."""
    scorer, found, counter = Loops().scorer, list[int](), 0
    while len(found) < num:
        seed = MANIFEST.question_seed(OTHER.public_key, 0, counter)
        if scorer.questions([Address(0, seed)]).held_out == [held_out]:
            found.append(counter)
        counter += 1
    return found


ALLOWED = counters_held_out(6, held_out=False)


async def test_an_external_batch_is_stored_with_this_nodes_rewards() -> None:
    loops = Loops()
    await ingest(loops, sealed(ALLOWED[:2]))
    ((prompts, rewards_RG),) = loops.stored
    seeds = [MANIFEST.question_seed(OTHER.public_key, 0, counter) for counter in ALLOWED[:2]]
    assert prompts == [MANIFEST.render(f"question 0 {seed}") for seed in seeds]
    assert rewards_RG == [[1.0, 0.0]] * 2
    assert (loops.progress.history.num_received, loops.count("buffer_added_total")) == (2, 2)


async def test_only_what_was_added_counts_as_added(tmp_path: Path) -> None:
    loops, buffer = Loops(), open_buffer(tmp_path)
    loops.add = lambda *args: buffer.add(*args, received_ms=MS)  # type: ignore[method-assign]
    await ingest(loops, sealed(ALLOWED[:3]), sealed(ALLOWED[1:5]))
    assert (loops.progress.history.num_received, loops.count("buffer_added_total")) == (5, 5)
    assert discarded(loops) == {"duplicate": 2}
    buffer.close()


async def test_a_rollout_on_a_held_out_question_is_not_stored() -> None:
    loops = Loops()
    await ingest(loops, sealed([*counters_held_out(1, held_out=True), ALLOWED[0]]))
    assert (loops.stored, discarded(loops)) == ([], {"held_out": 2})


@pytest.mark.parametrize("message", [b"", b"noise", sealed(ALLOWED[:1])[:-1]], ids=["empty", "noise", "cut"])
async def test_the_daemon_does_not_take_the_network_process_at_its_word(message: bytes) -> None:
    loops = Loops()
    await ingest(loops, message, sealed(ALLOWED[:1]))
    assert discarded(loops) == {"invalid": 1}
    assert len(loops.stored) == 1


async def test_a_replay_is_not_scored_again() -> None:
    loops = Loops()
    await ingest(loops, sealed(ALLOWED[:1]), sealed(ALLOWED[:1]))
    assert len(loops.scorer.asked("score_external")) == 1


async def test_a_message_of_another_swarm_is_not_scored() -> None:
    loops = Loops()
    await ingest(loops, sealed(ALLOWED[:1], manifest=MANIFEST.model_copy(update={"epoch": 1})))
    assert (loops.scorer.calls, discarded(loops)) == ([], {"invalid": 1})


async def test_our_own_message_does_not_come_back_as_somebody_elses() -> None:
    loops = Loops()
    await ingest(loops, sealed([0], identity=ME))
    assert (loops.scorer.calls, loops.stored, discarded(loops)) == ([], [], {})


@pytest.mark.parametrize("error", [ChildDied("gone"), LocalError("two zygotes died")])
async def test_a_scorer_that_fails_costs_one_batch(error: LocalError) -> None:
    loops = Loops()
    loops.scorer.fail("score_external", error)
    await ingest(loops, sealed(ALLOWED[:2]), sealed(ALLOWED[2:3]))
    assert discarded(loops) == {"scorer_failed": 2}
    assert len(loops.stored) == 1


@pytest.mark.parametrize(
    ("error", "reason"), [(DiskFull("no space"), "disk_full"), (StateError("locked"), "scorer_failed")]
)
async def test_a_buffer_that_cannot_be_written_costs_one_batch(error: LocalError, reason: str) -> None:
    loops = Loops()

    def fail(*args: Any) -> AddResult:
        raise error

    loops.add = fail  # type: ignore[method-assign, assignment]
    await ingest(loops, sealed(ALLOWED[:2]))
    assert discarded(loops) == {reason: 2}
    assert loops.progress.history.num_received == 0


@pytest.mark.parametrize("reward", [math.nan, math.inf])
async def test_a_reward_that_is_no_number_ends_nothing(tmp_path: Path, reward: float) -> None:
    loops, buffer = Loops(), open_buffer(tmp_path)
    loops.add = lambda *args: buffer.add(*args, received_ms=MS)  # type: ignore[method-assign]
    honest, loops.scorer.reward_of = loops.scorer.reward_of, lambda text: reward
    await ingest(loops, sealed(ALLOWED[:2]))
    loops.scorer.reward_of = honest
    await ingest(loops, sealed(ALLOWED[2:3]))
    assert discarded(loops) == {"invalid": 2}
    assert loops.progress.history.num_received == 1
    buffer.close()


async def test_ingest_goes_on_while_an_update_hangs(autojump_clock: trio.testing.MockClock) -> None:
    loops = Loops()
    loops.learner.gates["update"] = trio.Event()
    loops.progress.put_own(own_batch())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.update().run)
        await trio.testing.wait_all_tasks_blocked()
        await ingest(loops, *(sealed([counter]) for counter in ALLOWED))
        assert loops.progress.history.num_received == 6
        assert loops.progress.round == 0
        nursery.cancel_scope.cancel()
