"""Checkpoints by time: written in the background, known a round later, and what is lost with a learner is told."""

import trio
import trio.testing

from swarmd.clients.policy import Saved
from swarmd.errors import ChildDied, Failure
from swarmd.loops.update import Update
from tests.loops.fakes import Checkpoint
from tests.loops.parts import Loops, own_batch
from tests.loops.test_update import codes


async def test_a_checkpoint_in_the_background_is_known_a_round_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(staleness_max=9)
    autojump_clock.jump(100)
    for _ in range(3):
        loops.progress.put_own(own_batch())
    saved = list[int | None]()
    update = loops.update(
        checkpoint_interval_s=60, on_round=lambda done: saved.append(update.training.pace.saved_round)
    )
    update.training.rounds_max = 3
    await update.run()
    assert [args["save"] for args in loops.learner.asked("update")] == ["background", "no", "now"]
    assert saved == [None, 1, 3]
    assert loops.count("checkpoint_saves_total", result="ok") == 2


async def rounds_by_time(loops: Loops, num: int, *, interval_s: float = 60, seconds: float = 3) -> Update:
    """So many rounds of so many seconds."""
    update = loops.update(checkpoint_interval_s=interval_s)
    for _ in range(num):
        await trio.sleep(seconds)
        await update.one(own_batch(loops.learner.version))
    return update


async def test_a_hundred_rounds_of_three_seconds_have_a_checkpoint_a_quarter_of_an_hour(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops()
    await rounds_by_time(loops, 1000, interval_s=900)
    asked = [args["save"] for args in loops.learner.asked("update")]
    assert (asked.count("background"), asked.count("now")) == (3, 0)


async def test_rounds_that_are_lost_with_the_learner_are_counted_and_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops()
    update = await rounds_by_time(loops, 25)
    assert update.training.pace.saved_round == 20
    loops.learner.fail("update", ChildDied("gone"))
    await update.one(own_batch(loops.learner.version))
    assert loops.learner.applied_rounds[-2:] == [25, 21]
    assert (loops.progress.round, loops.progress.policy_version) == (21, 21)
    assert loops.count("train_rounds_lost_total") == 5
    assert [line for line in loops.said if line.startswith("! lost")] == [
        "! lost       5 rounds after round 20: the process that updates died, and the newest checkpoint is of round 20"
    ]


async def test_rounds_that_are_lost_unseen_between_two_updates_are_told_as_well(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops()
    update = await rounds_by_time(loops, 23)
    loops.learner.restart()  # under a generation, say: nobody has told the update loop
    await update.one(own_batch(loops.learner.version))
    assert loops.learner.applied_rounds[-2:] == [23, 21]
    assert loops.count("train_rounds_lost_total") == 3


async def test_a_checkpoint_that_fails_in_the_background_is_told_and_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops()
    loops.learner.failure = Failure("DiskFull", "no space", why="", fix="make room")
    update = await rounds_by_time(loops, 21)
    assert "disk_low" in codes(loops)
    loops.learner.failure = None
    for _ in range(21):
        await trio.sleep(3)
        await update.one(own_batch(loops.learner.version))
    assert "disk_low" not in codes(loops)
    assert update.training.pace.saved_round == 40


async def test_a_learner_that_dies_with_its_checkpoint_under_way_is_asked_for_another(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops()
    update = await rounds_by_time(loops, 20)
    assert update.training.pace.saving_round == 20
    loops.learner.saved, loops.learner.in_background = Checkpoint(), Saved()
    loops.learner.restart()
    for _ in range(21):
        await trio.sleep(3)
        await update.one(own_batch(loops.learner.version))
    assert loops.count("train_rounds_lost_total") == 20
    assert [args["save"] for args in loops.learner.asked("update")].count("background") == 2
