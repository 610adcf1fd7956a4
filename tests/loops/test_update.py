"""Update: a round is done once, with what is there; failures cost a round at most; a stop comes in between."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from swarmd.clients.update_stats import UpdateStats
from swarmd.errors import ChildDied, DiskFull, Failure, LocalError, OutOfMemory
from swarmd.experience.buffer import Sample
from swarmd.experience.fitting import EXTERNAL_BYTES_MAX
from swarmd.experience.rollouts import ScoredCompletion
from swarmd.files.datadir import DataDir
from swarmd.node.problems import at_a_glance
from swarmd.protocol.signing import peer_id_of
from tests.loops.fakes import a_round
from tests.loops.parts import MANIFEST, OTHER, Loops, external_rollout, own_batch


async def one_round(loops: Loops, **settings: Any) -> dict[str, Any]:
    """The record of the next round."""
    loops.progress.put_own(own_batch(loops.learner.version))
    await loops.update(rounds_max=loops.progress.round + 1, **settings).run()
    return loops.records[-1]


def codes(loops: Loops) -> set[str]:
    return {warning.code for warning in at_a_glance(loops.progress, {}, DataDir(Path("data")), solo=False)}


async def test_a_round_is_own_and_external_rollouts() -> None:
    loops = Loops()
    loops.external = [external_rollout(counter) for counter in range(9)]
    record = await one_round(loops)
    assert (record["num_own"], record["num_external"], record["shortfall"]) == (1, 4, 0)
    assert (record["reward_own"], record["reward_external"]) == (0.5, 0.5)
    assert record["used_by_author"] == {peer_id_of(OTHER.public_key): 4}
    (sent,) = loops.learner.asked("update")
    assert [r.external for r in sent["rollouts"]] == [False] + [True] * 4


@pytest.mark.parametrize("num_there", [0, 1, 3])
async def test_too_few_external_rollouts_are_reported_and_not_waited_for(
    autojump_clock: trio.testing.MockClock, num_there: int
) -> None:
    loops = Loops()
    loops.external = [external_rollout(counter) for counter in range(num_there)]
    record = await one_round(loops)
    assert trio.current_time() == 0
    assert (record["num_external"], record["shortfall"]) == (num_there, 4 - num_there)
    assert loops.count("sample_shortfall_total") == 4 - num_there
    assert loops.count("train_rounds_total") == 1


async def test_whose_rollouts_were_left_out_is_told_and_not_recorded() -> None:
    loops, told = Loops(), list[tuple[int, list[bytes]]]()
    loops.external = [external_rollout(counter) for counter in range(4)]
    loops.learner.stats = {"left_out": (1, 4)}
    record = await one_round(loops, note_use=lambda used, out: told.append((len(used), out)))
    assert told == [(4, [OTHER.public_key] * 2)]
    assert "left_out" not in record


async def test_a_node_alone_is_short_of_nothing() -> None:
    loops = Loops()
    record = await one_round(loops, num_external=0)
    assert (record["shortfall"], record["reward_external"]) == (0, None)
    assert loops.count("train_external_target_ratio") == 0


async def test_the_checkpoint_holds_all_that_a_restart_needs() -> None:
    loops = Loops()
    loops.external = [external_rollout()]
    loops.progress.history.num_shared = 5
    await one_round(loops)
    assert loops.learner.saved.state == {
        "round": 1,
        "manifest": MANIFEST.digest.hex(),
        "used_by_author": {peer_id_of(OTHER.public_key): 1},
        "num_shared": 5,
        "num_received": 0,
    }


async def test_checkpoints_come_every_few_rounds_and_at_the_end() -> None:
    loops = Loops(staleness_max=9)
    for _ in range(5):
        loops.progress.put_own(own_batch())
    await loops.update(checkpoint_every_rounds=2, rounds_max=5).run()
    assert [args["save"] for args in loops.learner.asked("update")] == ["no", "now", "no", "now", "now"]


async def test_a_round_whose_child_died_before_is_done_again() -> None:
    loops = Loops()
    loops.learner.fail("update", ChildDied("gone"), ChildDied("gone again"))
    await one_round(loops)
    assert len(loops.learner.asked("update")) == 3
    assert loops.learner.applied_rounds == [1]
    assert loops.progress.policy_version == 1


async def test_a_round_whose_child_died_after_its_checkpoint_is_not_done_twice() -> None:
    loops = Loops()
    loops.learner.fail("update", ChildDied("gone"), after=True)
    record = await one_round(loops)
    assert loops.learner.applied_rounds == [1]
    assert (loops.progress.round, loops.progress.policy_version, record["checkpoint"]) == (1, 1, "round-1")
    json.dumps(record, allow_nan=False)


async def test_a_round_without_a_checkpoint_is_done_again_on_the_older_weights() -> None:
    loops = Loops(staleness_max=9)
    await one_round(loops, checkpoint_every_rounds=1)
    loops.learner.fail("update", ChildDied("gone"), after=True)
    loops.progress.put_own(own_batch())
    loops.progress.put_own(own_batch())
    await loops.update(checkpoint_every_rounds=9, rounds_max=2).run()
    assert loops.learner.applied_rounds == [1, 2]
    assert loops.progress.policy_version == 2


async def test_the_same_draw_is_used_for_the_second_attempt() -> None:
    loops = Loops()
    loops.external = [external_rollout(counter) for counter in range(4)]
    loops.learner.fail("update", ChildDied("gone"))
    await one_round(loops)
    first, second = loops.learner.asked("update")
    assert first == second


async def test_a_training_set_that_kills_every_child_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(staleness_max=9)
    loops.learner.fail("update", *[ChildDied("gone")] * 3)
    loops.progress.put_own(own_batch())
    loops.progress.put_own(own_batch())
    await loops.update(rounds_max=1).run()
    assert loops.learner.applied_rounds == [1]
    assert loops.count("train_skipped_steps_total", reason="failed") == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OutOfMemory("too large"), "oom"), (LocalError("CUDA error"), "failed")],
)
async def test_a_failed_round_is_counted_by_its_reason(
    autojump_clock: trio.testing.MockClock, error: LocalError, reason: str
) -> None:
    loops = Loops(staleness_max=9)
    loops.learner.fail("update", error)
    loops.progress.put_own(own_batch())
    loops.progress.put_own(own_batch())
    await loops.update(rounds_max=1).run()
    skipped = {r: loops.count("train_skipped_steps_total", reason=r) for r in ("oom", "failed")}
    assert skipped == {"oom": 0, "failed": 0} | {reason: 1}
    assert loops.progress.pool.has_room


async def test_a_skipped_step_is_a_round_but_no_step() -> None:
    loops = Loops()
    loops.learner.stats = {"skipped": "zero_advantage"}
    await one_round(loops)
    assert loops.count("train_skipped_steps_total", reason="zero_advantage") == 1
    assert (loops.count("train_rounds_total"), loops.count("train_steps_total")) == (1, 0)


async def test_a_loss_that_is_no_number_can_still_be_written_down() -> None:
    loops = Loops()
    loops.learner.stats = {"loss": math.nan, "grad_norm": math.inf, "skipped": "non_finite"}
    record = await one_round(loops)
    json.dumps(record, allow_nan=False)
    assert record["loss"] is None
    assert loops.count("train_loss") == 0


@pytest.mark.parametrize(
    ("kind", "code"),
    [("DiskFull", "disk_low"), ("StateError", "checkpoint_failing"), ("Unheard", "checkpoint_failing")],
)
async def test_a_checkpoint_that_fails_is_told_until_one_is_written(kind: str, code: str) -> None:
    loops = Loops()
    loops.learner.failure = Failure(kind, "no space", why="", fix="make room")
    await one_round(loops)
    assert code in codes(loops)
    assert loops.count("checkpoint_saves_total", result="failed") == 2  # the end tried again
    loops.learner.failure = None
    await one_round(loops)
    assert code not in codes(loops)
    assert loops.count("checkpoint_saves_total", result="ok") == 1


async def test_a_round_without_a_checkpoint_says_nothing_of_the_last_one() -> None:
    loops = Loops(staleness_max=9)
    loops.progress.shown.checkpoint_error = LocalError("no space")
    told = list[set[str]]()
    for _ in range(3):
        loops.progress.put_own(own_batch())
    await loops.update(
        rounds_max=3, checkpoint_every_rounds=2, on_round=lambda record: told.append(codes(loops))
    ).run()
    assert ["checkpoint_failing" in codes for codes in told] == [True, False, False]


async def stopped_between_checkpoints(loops: Loops) -> None:
    """One round without a checkpoint, and an orderly end."""
    loops.progress.put_own(own_batch())
    await loops.update(checkpoint_every_rounds=9, on_round=lambda record: loops.progress.request_stop()).run()


async def test_an_orderly_end_saves_the_last_round() -> None:
    loops = Loops()
    await stopped_between_checkpoints(loops)
    assert loops.learner.saved.state["round"] == 1
    assert loops.learner.applied_rounds == [1]
    assert loops.count("train_rounds_total") == 1


async def test_an_orderly_end_tries_again_where_the_last_checkpoint_failed() -> None:
    loops = Loops()
    loops.learner.failure = Failure("StateError", "read-only", why="", fix="")

    def mended(record: dict[str, Any]) -> None:
        loops.learner.failure = None
        loops.progress.request_stop()

    loops.progress.put_own(own_batch())
    await loops.update(on_round=mended).run()
    assert loops.progress.shown.checkpoint_error is None
    assert loops.learner.saved.state["round"] == 1
    assert loops.count("checkpoint_saves_total", result="failed") == 1


async def test_an_end_that_cannot_save_is_still_an_end() -> None:
    loops = Loops()
    loops.learner.failure = Failure("DiskFull", "no space", why="", fix="")
    await stopped_between_checkpoints(loops)
    assert loops.progress.phase == "idle"
    assert "disk_low" in codes(loops)


async def test_a_learner_that_dies_while_it_saves_does_not_hold_the_end_up() -> None:
    loops = Loops()
    gone = ChildDied("gone")

    def die_next(record: dict[str, Any]) -> None:
        loops.learner.fail("update", gone)
        loops.progress.request_stop()

    loops.progress.put_own(own_batch())
    await loops.update(checkpoint_every_rounds=9, on_round=die_next).run()
    assert loops.progress.shown.checkpoint_error is gone


async def test_a_stop_while_waiting_ends_at_once(autojump_clock: trio.testing.MockClock) -> None:
    loops = Loops()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.update().run)
        await trio.testing.wait_all_tasks_blocked()
        loops.progress.request_stop()
    assert (trio.current_time(), loops.progress.round, loops.progress.phase) == (0, 0, "idle")


async def test_a_stop_during_an_update_ends_after_the_round() -> None:
    loops = Loops(staleness_max=9)
    gate = loops.learner.gates["update"] = trio.Event()
    loops.progress.put_own(own_batch())
    loops.progress.put_own(own_batch())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.update().run)
        await trio.testing.wait_all_tasks_blocked()
        loops.progress.request_stop()
        await trio.testing.wait_all_tasks_blocked()
        assert loops.progress.phase == "update"
        gate.set()
    assert loops.progress.round == 1
    assert loops.learner.saved.state["round"] == 1


async def test_a_node_that_has_done_its_rounds_does_no_more() -> None:
    loops = Loops()
    loops.progress.round = 3
    await loops.update(rounds_max=3).run()
    assert not loops.learner.calls


async def test_new_weights_reach_the_other_process_after_it_died(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(split=True)
    loops.generator.fail("load_weights", ChildDied("gone"))
    await one_round(loops)
    assert loops.generator.version == loops.learner.version == 1


async def test_a_round_counts_even_if_its_weights_cannot_be_handed_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(split=True)
    loops.generator.fail("load_weights", *[LocalError("no")] * 3)
    record = await one_round(loops)
    assert (record["round"], loops.progress.round, loops.generator.version) == (1, 1, 0)
    await one_round(loops)
    assert loops.generator.version == 2


async def test_what_is_measured_of_a_round() -> None:
    loops = Loops()
    loops.external = [external_rollout(counter) for counter in range(4)]
    await one_round(loops)
    assert loops.count("train_external_ratio") == 0.8
    assert loops.count("train_external_target_ratio") == 0.8
    assert loops.count("train_tokens_total", origin="external") == 16
    assert loops.count("train_samples_total", origin="local", task="chain_sum") == 1
    assert loops.count("reward_mean", origin="external", task="chain_sum") == 0.5
    assert loops.count("reward_informative_ratio", origin="local") == 1
    assert loops.count("phase", phase="idle") == 1


async def test_a_buffer_that_cannot_be_used_costs_the_externals_and_not_the_round() -> None:
    loops = Loops()

    def full(num: int, rng: object, own: object, admitted: object) -> None:
        raise DiskFull("the buffer cannot be written")

    record = await one_round(loops, draw=full, num_external=4)
    assert (record["num_external"], record["shortfall"], record["skipped"]) == (0, 4, None)


async def test_text_that_would_not_fit_a_message_to_the_child_is_left_out_and_counted_as_short() -> None:
    loops = Loops()
    huge = (ScoredCompletion("x" * (EXTERNAL_BYTES_MAX // 2 + 1), True, float(n)) for n in range(2))
    loops.external = [
        external_rollout(0),
        replace(external_rollout(1), completions=tuple(huge)),
        external_rollout(2),
    ]
    await loops.update().once(own_batch())
    assert (loops.records[0]["num_external"], loops.records[0]["shortfall"]) == (2, 2)
    counters = [r.counter for r in loops.learner.asked("update")[0]["rollouts"] if r.external]
    assert counters == [0, 2]


WEIGHTS = {
    "external_weight_mean": ("train_external_weight", {}),
    "external_weight_zero": ("train_external_zero_weight_ratio", {}),
    "external_likelihood_ratio": ("train_external_likelihood_ratio", {}),
    "mismatch_ratio_mean": ("train_mismatch_ratio", {"stat": "mean"}),
    "mismatch_ratio_p99": ("train_mismatch_ratio", {"stat": "p99"}),
    "mismatch_ratio_max": ("train_mismatch_ratio", {"stat": "max"}),
    "mismatch_cut": ("train_mismatch_cut_ratio", {}),
}


async def test_weights_and_mismatch_are_recorded_and_shown() -> None:
    loops = Loops()
    loops.learner.stats = {key: 0.5 + number for number, key in enumerate(WEIGHTS)}
    record = await one_round(loops)
    for number, (key, (name, labels)) in enumerate(WEIGHTS.items()):
        assert record[key] == loops.count(name, **labels) == 0.5 + number, key


def test_every_field_that_is_shown_is_one_of_the_update() -> None:
    assert set(Loops().metrics.of_update) <= {field.name for field in fields(UpdateStats)}


def test_a_rounds_record_has_a_key_for_all_that_an_update_reports() -> None:
    """`left_out` names places in the training set, which nobody can read later."""
    reported = {field.name for field in fields(UpdateStats)} - {"left_out"}
    assert reported <= a_round().to_record().keys()


async def test_rollouts_too_old_to_be_drawn_are_counted() -> None:
    loops = Loops()
    loops.draw = lambda num, rng, own, admitted: Sample([], 0, 0, num, num_over_age=3)  # type: ignore[method-assign]
    record = await one_round(loops)
    assert (record["num_over_age"], loops.count("sample_over_age_rollouts")) == (3, 3)
