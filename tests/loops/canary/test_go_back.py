"""Going back through kills and failures: done once, or told, or tried again; and a return that is lost is noticed."""

import json

import pytest
import trio
import trio.testing

from swarmd.errors import ChildDied, DiskFull, Failure, LocalError, StateError
from tests.loops.parts import own_batch
from tests.loops.watched import Watched


def restarted(loops: Watched) -> Watched:
    """Another process on the same checkpoints."""
    again = Watched()
    again.learner.saved = loops.learner.saved
    again.learner.version = again.learner.saved.policy_version
    again.generator.texts = loops.generator.texts
    again.learner.saved.state = json.loads(json.dumps(again.learner.saved.state))
    again.progress.resume(again.learner.saved.state, again.learner.version)
    again.watch()
    return again


async def test_a_kill_before_the_rollback_measures_again_at_once() -> None:
    loops = Watched()
    loops.learner.fail("rollback", LocalError("killed here"))
    await loops.fallen()
    again = restarted(loops)
    assert again.progress.round == 4
    await again.loop.begin()
    assert again.learner.rollbacks == [(2, 5)]
    assert again.progress.round == 5


async def test_a_kill_after_it_resumes_the_earlier_policy_and_does_nothing_twice() -> None:
    loops = Watched()
    await loops.fallen()
    again = restarted(loops)
    await again.loop.begin()
    assert (again.progress.round, again.learner.rollbacks) == (5, [])
    assert again.memory.backoff.falls == (5,)
    assert again.memory.backoff.alone
    assert again.memory.good_round == 2


async def test_a_child_that_dies_before_it_went_back_is_asked_again() -> None:
    loops = Watched()
    loops.learner.fail("rollback", ChildDied("gone"), ChildDied("gone again"))
    await loops.fallen()
    assert (loops.learner.rollbacks, loops.progress.round) == ([(2, 5)], 5)


async def test_a_child_that_dies_after_it_went_back_is_not_asked_again() -> None:
    loops = Watched()
    loops.learner.fail("rollback", ChildDied("gone"), after=True)
    await loops.fallen()
    assert loops.learner.rollbacks == [(2, 5)]
    assert (loops.progress.round, loops.progress.policy_version) == (5, 5)


async def test_a_lost_checkpoint_is_told_and_the_policy_goes_on() -> None:
    loops = Watched()
    loops.learner.fail("rollback", StateError("the checkpoint of round 2 cannot be used", "damaged"))
    await loops.fallen()
    assert (loops.progress.round, loops.learner.rollbacks) == (4, [])
    assert "cannot be used" in loops.said[-1]
    await loops.rounds(2)
    assert loops.checks()["good"] == 2


async def test_a_buffer_on_a_full_disk_does_not_keep_the_policy_from_going_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loops = Watched()

    def full(authors: object) -> int:
        raise DiskFull("the buffer cannot be written")

    monkeypatch.setattr(loops.watcher, "quarantine", full)
    await loops.fallen()
    assert loops.learner.rollbacks == [(2, 5)]


async def test_a_measurement_that_fails_waits_a_round_and_skips_none() -> None:
    loops = Watched()
    await loops.loop.begin()
    loops.scorer.fail("score", LocalError("the scorer is away"))
    await loops.rounds(3)
    assert loops.learner.applied_rounds == [1, 2, 3]
    assert loops.memory.good_round == 3


async def test_a_scorer_whose_zygotes_die_is_no_fall() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(2)
    loops.scorer.reason_of = lambda text: "zygote_died"
    await loops.rounds(3)
    assert (loops.learner.rollbacks, loops.quarantined) == ([], [])
    loops.scorer.reason_of = lambda text: None
    await loops.rounds(1)
    assert loops.checks() == {"good": 2, "low": 0, "fallen": 0}
    assert loops.learner.applied_rounds == [1, 2, 3, 4, 5, 6]


async def test_a_scorer_that_fails_only_at_the_second_look_is_no_fall() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(2)
    loops.fall()
    reasons = iter([None] * 16)
    loops.scorer.reason_of = lambda text: next(reasons, "zygote_died")
    await loops.rounds(2)
    assert loops.checks() == {"good": 1, "low": 0, "fallen": 0}
    assert loops.memory.measured_round == 2  # still due


async def test_a_policy_that_writes_what_hangs_the_scorer_has_fallen() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(2)
    loops.generator.texts = ["hangs"]
    loops.scorer.reason_of = lambda text: "deadline" if text == "hangs" else None
    await loops.rounds(2)
    assert loops.learner.rollbacks == [(2, 5)]


async def test_a_good_round_without_a_checkpoint_gets_one() -> None:
    loops = Watched()
    loops.loop.training.pace.every_rounds = 100
    await loops.fallen()
    saved = [args["round"] for args in loops.learner.asked("update") if args["save"] == "now"]
    assert (saved, loops.learner.rollbacks) == ([2], [(2, 5)])


async def test_a_good_round_that_cannot_be_saved_is_none_to_go_back_to() -> None:
    loops = Watched()
    loops.loop.training.pace.every_rounds = 100
    await loops.loop.begin()
    await loops.rounds(1)
    loops.learner.failure = FULL
    await loops.rounds(1)
    assert loops.memory.good_round is None


async def test_a_good_round_is_saved_in_the_background_when_its_turn_comes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched()
    loops.loop.training.pace.interval_s = 90
    await loops.loop.begin()
    good = []
    for _ in range(8):  # measured in every second round
        await trio.sleep(15)
        await loops.rounds(1)
        good.append(loops.memory.good_round)
    assert good == [None, None, None, 4, 4, 4, 4, 8]
    saves = [(args["round"], args["save"]) for args in loops.learner.asked("update") if args["save"] != "no"]
    assert saves == [(4, "background"), (8, "background")]


async def test_a_good_round_whose_save_failed_gives_way_to_the_good_one_before(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched()
    loops.loop.training.pace.interval_s = 90
    await loops.loop.begin()
    for number in range(9):
        await trio.sleep(15)
        loops.learner.failure = FULL if number == 7 else None
        await loops.rounds(1)
    assert loops.memory.good_round == 4
    loops.fall()
    await loops.rounds(3)
    assert [to for to, _ in loops.learner.rollbacks] == [4]


async def test_a_node_that_is_stopping_does_not_measure() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(1)
    loops.progress.request_stop()
    own = own_batch(loops.learner.version)
    await loops.loop.one(own)
    assert loops.checks() == {"good": 0, "low": 0, "fallen": 0}


async def test_the_other_generation_child_gets_the_weights_of_before() -> None:
    loops = Watched(split=True, staleness_max=1)
    await loops.fallen()
    assert loops.generator.asked("load_weights")[-1]["policy_version"] == loops.progress.policy_version == 5


async def test_own_rollouts_of_the_fallen_policy_are_not_trained_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched(staleness_max=9)
    await loops.fallen()
    loops.progress.put_own(own_batch(4))
    loops.progress.put_own(own_batch(5))
    loops.loop.training.rounds_max = 6
    await loops.loop.run()
    assert loops.learner.applied_rounds == [1, 2, 3, 4, 6]
    assert loops.learner.used_staleness[-1] == 0


# A return that is lost again.

FULL = Failure("DiskFull", "full", why="", fix="")


async def returned(loops: Watched) -> None:
    """Gone back to round 2 in round 5; the newest checkpoint is that of round 3, already on the way down."""
    await loops.loop.begin()
    await loops.rounds(3)
    loops.learner.failure = FULL
    loops.fall()
    await loops.rounds(1)
    loops.learner.failure = None


async def trained(loops: Watched, *versions: int, rounds_max: int) -> None:
    """The loop itself, on own rollouts of these versions."""
    for version in versions:
        loops.progress.put_own(own_batch(version))
    loops.loop.training.rounds_max = rounds_max
    with trio.fail_after(600):
        await loops.loop.run()


async def test_weights_of_before_that_were_not_handed_over_are_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched(split=True, staleness_max=9)
    bring, refusals = loops.loop.training.bring, iter(range(1))

    async def refuse() -> bool:
        if loops.learner.rollbacks and next(refusals, None) is not None:
            return False
        assert bring is not None
        return await bring()

    loops.loop.training.bring = refuse
    await loops.fallen()
    assert (loops.learner.version, loops.generator.version) == (5, 4)
    loops.progress.put_own(own_batch(4))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.loop.run)
        await trio.testing.wait_all_tasks_blocked()
        loops.progress.request_stop()
    assert loops.generator.version == loops.learner.version == 5  # what it makes from now on is trained on
    assert loops.learner.applied_rounds == [1, 2, 3, 4]


async def test_a_learner_that_lost_its_return_goes_back_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched(staleness_max=9)
    await returned(loops)
    loops.learner.restart()
    await trained(loops, 3, 4, 5, rounds_max=6)
    assert loops.learner.rollbacks == [(2, 5), (2, 4)]
    assert loops.learner.applied_rounds == [1, 2, 3, 4, 5, 6]


async def test_a_learner_that_lost_its_return_under_an_update_goes_back_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched(staleness_max=9)
    await returned(loops)
    loops.learner.fail("update", ChildDied("gone"))
    await trained(loops, 5, 5, rounds_max=6)
    assert loops.learner.rollbacks == [(2, 5), (2, 5)]
    lost, again, _ = [args["state"]["canary"] for args in loops.learner.asked("update")[-3:]]
    assert (lost["backoff"]["falls"], lost["num_external"]) == ([5], 0)
    # a kill here is one before the return
    assert (again["backoff"]["falls"], again["num_external"]) == ([], 4)


async def test_weights_that_a_learner_lost_unseen_are_measured_and_not_those_of_the_other_child(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched(split=True, staleness_max=9)
    await returned(loops)
    loops.learner.restart()
    assert (loops.learner.version, loops.generator.version) == (3, 5)
    await trained(loops, 5, 5, rounds_max=6)
    assert [args["policy_version"] for args in loops.generator.asked("load_weights")][-4:] == [3, 4, 5, 6]
    assert loops.learner.rollbacks == [(2, 5), (2, 4)]


async def test_a_saved_return_is_asked_after_no_more(autojump_clock: trio.testing.MockClock) -> None:
    loops = Watched(staleness_max=9)
    await returned(loops)
    await trained(loops, 5, 6, rounds_max=7)
    assert len(loops.learner.asked("about")) == 1


async def test_a_learner_that_does_not_say_where_it_is_costs_a_batch(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched(staleness_max=9)
    await returned(loops)
    loops.learner.fail("about", LocalError("no answer"))
    await trained(loops, 5, 5, rounds_max=6)
    assert loops.learner.applied_rounds == [1, 2, 3, 4, 6]
    assert not len(loops.progress.pool)


async def test_a_policy_that_generation_has_not_got_is_not_measured(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Watched(split=True)
    await loops.loop.begin()
    await loops.rounds(1)
    loops.generator.fail("load_weights", *[LocalError("no")] * 3)
    await loops.rounds(1)
    assert loops.checks()["good"] == 0
    await loops.rounds(1)
    assert loops.memory.good_round == 3
