"""The policy process: generate, update, resume, hand over, export; and what it does when something is wrong."""

import json
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.clients.events import CheckpointSkipped, PolicyEvent
from swarmd.errors import ChildDied, DiskFull, OutOfMemory, StateError, SwarmdError
from swarmd.policy.state import saving
from swarmd.policy.state.checkpoints import newest_valid
from swarmd.policy.update.learner import Learner
from swarmd.processes.frames import FrameReader, encode_frame
from tests.policy.services import own_rollout, parameters, service, started


def changed(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return any(not torch.equal(before[name], after[name]) for name in before)


def test_a_round_changes_the_policy_and_what_it_generates(model_dir: Path) -> None:
    policy = started(model_dir)
    before, said = parameters(policy), policy.generate(["one?"], 4, 1.0, 12, 5)
    stats = policy.update([own_rollout(policy, "one?")], round=1, state={}, save="no").to_record()
    assert (stats["policy_version"], stats["skipped"], stats["checkpoint"]) == (1, None, None)
    assert changed(before, parameters(policy))
    again = policy.generate(["one?"], 4, 1.0, 12, 5)
    assert again.policy_version == 1
    assert again.completions_RG != said.completions_RG


def test_every_reply_comes_out_of_a_frame_as_it_went_in(model_dir: Path, tmp_path: Path) -> None:
    policy = service(model_dir, checkpoints=tmp_path / "c")
    replies = [
        policy.start(),
        policy.about(),
        policy.generate(["one?"], 2, 1.0, 4, 5),
        policy.update([own_rollout(policy, "one?")], round=1, state={}, save="now"),
        policy.publish_weights(str(tmp_path / "w")),
    ]
    for reply in replies:
        assert FrameReader(type(reply)).feed(encode_frame(reply)) == [reply]


def test_generation_counts_its_tokens(model_dir: Path) -> None:
    policy = started(model_dir)
    result = policy.generate(["one?", "two and two?"], 3, 1.0, 8, 1)
    flat = [completion for row in result.completions_RG for completion in row]
    assert [len(row) for row in result.completions_RG] == [3, 3]
    assert result.num_completion_tokens == sum(len(c.token_ids) for c in flat)
    assert all(c.num_tokens == len(c.token_ids) and c.logprob_sum < 0 for c in flat)


@pytest.mark.parametrize("rewards", [[], [1.0, 1.0, 1.0, 1.0]])
def test_without_signal_nothing_changes_but_the_checkpoint_is_written(
    model_dir: Path, tmp_path: Path, rewards: list[float]
) -> None:
    policy = started(model_dir, checkpoints=tmp_path)
    before = parameters(policy)
    wire = own_rollout(policy, "one?")
    wire = replace(wire, completions=tuple(replace(c, reward=1.0) for c in wire.completions))
    stats = policy.update([wire] if rewards else [], round=3, state={"round": 3}, save="now").to_record()
    assert stats["skipped"] == ("zero_advantage" if rewards else "no_data")
    assert (stats["policy_version"], stats["checkpoint"]) == (0, "round-00000003")
    assert not changed(before, parameters(policy))


def test_a_restart_goes_on_where_the_checkpoint_was(model_dir: Path, tmp_path: Path) -> None:
    first = started(model_dir, checkpoints=tmp_path)
    wire = [own_rollout(first, "one?")]
    first.update(wire, round=1, state={"round": 1}, save="now")
    second = service(model_dir, checkpoints=tmp_path)
    info = second.start()
    assert (info.policy_version, info.resumed_from) == (1, "round-00000001")
    assert info.state == {"round": 1}
    first.update(wire, round=2, state={}, save="no")
    second.update(wire, round=2, state={}, save="no")
    assert not changed(parameters(first), parameters(second))  # the optimizer's moments came back too


def test_a_generating_process_resumes_too(model_dir: Path, tmp_path: Path) -> None:
    both = started(model_dir, checkpoints=tmp_path)
    both.update([own_rollout(both, "one?")], round=1, state={}, save="now")
    generator = service(model_dir, roles=("generate",), checkpoints=tmp_path)
    assert generator.start().policy_version == 1
    assert not changed(parameters(both), parameters(generator))


def test_a_generating_process_that_can_read_no_checkpoint_does_not_begin_anew(
    model_dir: Path, tmp_path: Path
) -> None:
    policy = started(model_dir, checkpoints=tmp_path)
    policy.update([own_rollout(policy, "1 + 1")], round=1, state={}, save="now")
    next(tmp_path.glob("round-*/model.safetensors")).unlink()  # as if newer rounds had replaced it meanwhile
    with pytest.raises(StateError, match="could be read"):
        started(model_dir, checkpoints=tmp_path, roles=("generate",))


def test_the_rest_of_a_first_checkpoint_that_was_never_finished_stops_no_start(
    model_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / ".tmp-round-00000001").mkdir()
    assert started(model_dir, checkpoints=tmp_path).about().policy_version == 0


def test_a_damaged_checkpoint_is_passed_over_and_reported(model_dir: Path, tmp_path: Path) -> None:
    policy = started(model_dir, checkpoints=tmp_path)
    for number in (1, 2):
        policy.update([own_rollout(policy, "one?")], round=number, state={"round": number}, save="now")
    (tmp_path / "round-00000002" / "model.safetensors").write_bytes(b"\0" * 100)
    events: list[PolicyEvent] = []
    info = service(model_dir, checkpoints=tmp_path, events=events).start()
    assert (info.policy_version, info.state) == (1, {"round": 1})
    assert events[0].why.startswith("round-00000002: model.safetensors has 100 bytes")
    assert [type(event) for event in events] == [CheckpointSkipped]


def test_checkpoints_of_another_model_are_refused(
    model_dir: Path, other_model_dir: Path, tmp_path: Path
) -> None:
    policy = started(model_dir, checkpoints=tmp_path)
    policy.update([], round=1, state={}, save="now")
    with pytest.raises(StateError, match="are of model random, not other"):
        service(other_model_dir, checkpoints=tmp_path, model="other").start()
    with pytest.raises(StateError, match="do not fit the model"):
        service(other_model_dir, checkpoints=tmp_path).start()  # the same name, another shape


def test_a_checkpoint_that_cannot_be_written_does_not_undo_the_update(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = started(model_dir, checkpoints=tmp_path)
    wire = own_rollout(policy, "one?")

    def full(*_: Any, **__: Any) -> None:
        raise DiskFull("no space", "1 MiB is free", "free some")

    monkeypatch.setattr("swarmd.policy.state.checkpoints.save", full)
    stats = policy.update([wire], round=1, state={}, save="now").to_record()
    assert (stats["policy_version"], stats["checkpoint"]) == (1, None)
    assert stats["checkpoint_error"]["kind"] == "DiskFull"


def test_weights_travel_from_the_learner_to_a_generator(model_dir: Path, tmp_path: Path) -> None:
    learner, generator = started(model_dir, roles=("update",)), started(model_dir, roles=("generate",))
    wire = own_rollout(generator, "one?")
    learner.update([wire], round=1, state={}, save="no")
    published = learner.publish_weights(str(tmp_path))
    generator.load_weights(*published)
    assert generator.about().policy_version == 1
    assert not changed(parameters(learner), parameters(generator))


def test_a_generator_begins_with_what_the_last_one_was_handed_and_not_with_an_older_checkpoint(
    model_dir: Path, tmp_path: Path
) -> None:
    saved, published = tmp_path / "saved", tmp_path / "published"
    learner = started(model_dir, roles=("update",), checkpoints=saved)
    wire = own_rollout(started(model_dir, roles=("generate",)), "one?")
    learner.update([wire], round=1, state={}, save="now")
    learner.update([wire], round=2, state={}, save="no")
    generator = partial(started, model_dir, roles=("generate",), checkpoints=saved, published=published)
    assert generator().about().policy_version == 1
    learner.publish_weights(str(published))
    assert generator().about().policy_version == 2
    assert not changed(parameters(learner), parameters(generator()))
    (published / "version-00000002" / "model.safetensors").unlink()  # superseded at this very moment
    assert generator().about().policy_version == 1


def test_weights_of_another_model_leave_the_generator_as_it_was(
    model_dir: Path, other_model_dir: Path, tmp_path: Path
) -> None:
    published = started(other_model_dir, roles=("update",)).publish_weights(str(tmp_path))
    generator = started(model_dir, roles=("generate",))
    before = parameters(generator)
    with pytest.raises(StateError, match="do not fit"):
        generator.load_weights(published.path, 7)
    assert not changed(before, parameters(generator))
    assert generator.about().policy_version == 0


def test_a_role_it_does_not_have_is_refused(model_dir: Path) -> None:
    with pytest.raises(SwarmdError, match="does not generate"):
        started(model_dir, roles=("update",)).generate(["one?"], 1, 1.0, 4, 0)
    with pytest.raises(SwarmdError, match="does not update"):
        started(model_dir, roles=("generate",)).update([], round=1, state={}, save="no")


def test_an_update_that_does_not_fit_says_what_to_lower_and_changes_nothing(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = started(model_dir)
    wire, before = own_rollout(policy, "one?"), parameters(policy)

    def out_of_memory(*_: Any, **__: Any) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "_run", out_of_memory)
        with pytest.raises(OutOfMemory, match="micro_batch_tokens"):
            policy.update([wire], round=1, state={}, save="no")
    assert not changed(before, parameters(policy))
    assert policy.update([wire], round=1, state={}, save="no").to_record()["policy_version"] == 1


def test_another_failure_of_the_update_is_not_taken_for_lack_of_memory(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = started(model_dir)

    def fault(*_: Any) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Learner, "update", fault)
    with pytest.raises(RuntimeError, match="shapes differ"):
        policy.update([], round=1, state={}, save="no")


def test_the_checkpoint_names_its_model(model_dir: Path, tmp_path: Path) -> None:
    started(model_dir, checkpoints=tmp_path).update([], round=1, state={}, save="now")
    found = newest_valid(tmp_path)
    assert found.path is not None
    assert json.loads((found.path / "state.json").read_text())["model"] == "random"


def test_the_floor_comes_from_own_sampling_and_drops_what_nobody_here_would_say(model_dir: Path) -> None:
    policy = started(model_dir, external_logp_min="auto")
    own = [own_rollout(policy, f"{number}?", seed=number, counter=number) for number in range(20)]
    first = policy.update(own[:10], round=1, state={}, save="no").to_record()
    assert first["external_logp_min"] is None  # 40 own completions are too few to say
    second = policy.update(own[10:], round=2, state={}, save="no").to_record()
    assert -40 < second["external_token_logp_min"] < second["external_logp_min"] < 0


def test_without_a_floor_or_with_a_fixed_one_nothing_is_followed(model_dir: Path) -> None:
    for setting, expected in (("off", None), (-3.5, -3.5)):
        policy = started(model_dir, external_logp_min=setting)
        own = [own_rollout(policy, f"{n}?", seed=n, counter=n) for n in range(20)]
        stats = policy.update(own, round=1, state={}, save="no").to_record()
        assert (stats["external_logp_min"], stats["external_token_logp_min"]) == (expected, None)


def test_a_checkpoint_in_the_background_is_of_its_round_and_told_with_a_later_answer(
    model_dir: Path, tmp_path: Path
) -> None:
    policy = started(model_dir, checkpoints=tmp_path)
    begun = policy.update([own_rollout(policy, "one?")], 1, {"round": 1}, "background", policy_version=0)
    before = parameters(policy)
    assert begun.saved.round is None
    policy.update([own_rollout(policy, "two?")], 2, {"round": 2}, "no", policy_version=1)
    assert policy._saving is not None
    policy._saving.finish()
    told = [policy.update([], 2, {}, "no").saved for _ in range(2)]
    assert [(saved.round, saved.checkpoint) for saved in told] in (
        [(1, "round-00000001"), (None, None)],
        [(None, None)] * 2,  # the second update's answer had it
    )
    assert newest_valid(tmp_path).policy_version == 1
    resumed = started(model_dir, checkpoints=tmp_path)
    assert all(torch.equal(before[name], tensor) for name, tensor in parameters(resumed).items())


def test_a_round_that_is_being_saved_is_not_saved_twice(model_dir: Path, tmp_path: Path) -> None:
    policy = started(model_dir, checkpoints=tmp_path)
    policy.update([own_rollout(policy, "one?")], 1, {"round": 1, "first": True}, "background")
    assert policy.update([], 1, {"round": 1}, "now").saved.checkpoint == "round-00000001"
    assert newest_valid(tmp_path).state == {"round": 1, "first": True}


def test_a_process_that_is_not_at_the_version_asked_for_refuses(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(error: ChildDied) -> None:
        raise SystemExit

    monkeypatch.setattr("swarmd.policy.service.end_process", end)
    policy = started(model_dir, checkpoints=tmp_path)
    wire = own_rollout(policy, "one?")
    with pytest.raises(ChildDied, match="policy version 3 is asked for, and 0 is here"):
        policy.update([wire], 4, {}, "no", policy_version=3)
    policy.update([wire], 1, {}, "no", policy_version=0)
    with pytest.raises(
        SystemExit
    ):  # what it did since its start is nobody's round: another process begins anew
        policy.update([wire], 1, {}, "no", policy_version=0)


def test_no_weight_changes_before_a_checkpoint_in_the_background_has_them_all(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, read, copy = started(model_dir, checkpoints=tmp_path), threading.Event(), saving._on_host
    first = parameters(policy)
    waiting = list[bool]()

    def slow(tensors: Any) -> Any:
        assert read.wait(60)
        waiting.append(changed(first, parameters(policy)))
        return copy(tensors)

    monkeypatch.setattr(saving, "_on_host", slow)
    policy.update([], 1, {"round": 1}, "background")
    threading.Timer(0.2, read.set).start()
    policy.update([own_rollout(policy, "one?")], 2, {"round": 2}, "no")
    assert changed(first, parameters(policy))
    assert waiting == [False, False]  # weights, then moments
