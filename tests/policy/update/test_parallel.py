"""Two ranks on the CPU train as one device does, and neither outlives the other's end unnoticed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from swarmd.errors import ChildDied, ConfigError
from swarmd.policy.model.loading import load_model
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.packing import Pack, PromptGroup, TokenCompletion, TokenRollout, WeighedCompletion
from swarmd.policy.update.parallel import ParallelLearner, balanced
from swarmd.processes.frames import FrameReader, encode_frame
from tests.policy.plain_reference import worst_difference
from tests.policy.services import own_rollout, started
from tests.policy.settings import config, execution

SETTINGS = config(learning_rate=1e-3, threads=1), execution(micro_batch_tokens=64)
DEVICES = ("cpu", "cpu")


def rounds(num: int) -> list[list[TokenRollout]]:
    rng = random.Random(0)

    def ids(num_max: int) -> tuple[int, ...]:
        return tuple(rng.randrange(3, 260) for _ in range(rng.randint(1, num_max)))

    def rollout(number: int) -> TokenRollout:
        completions = tuple(TokenCompletion(ids(12), rng.gauss(0, 1)) for _ in range(4))
        return TokenRollout(ids(20), completions, external=bool(number % 2))

    return [[rollout(number) for number in range(5)] for _ in range(num)]


@pytest.fixture(scope="module")
def pair(model_dir: Path) -> Iterator[tuple[Learner, ParallelLearner]]:
    """One device, and two ranks, from the same weights; each test leaves them alike, or makes them so."""
    single = Learner(load_model(model_dir, "cpu"), *SETTINGS)
    parallel = ParallelLearner(load_model(model_dir, "cpu"), *SETTINGS, devices=DEVICES, model_dir=model_dir)
    yield single, parallel
    parallel.release()


def weights(learner: Learner) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in learner.model.named_parameters()}


def furthest(one: Learner, other: Learner) -> float:
    theirs = weights(other)
    return max((tensor - theirs[name]).abs().max().item() for name, tensor in weights(one).items())


def rank_pids(learner: ParallelLearner) -> list[int]:
    return [process.pid for process in learner._ranks._processes] if learner._ranks else []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def test_gradients_updates_and_what_they_report_are_the_single_devices(
    pair: tuple[Learner, ParallelLearner],
) -> None:
    single, parallel = pair
    first, *others = rounds(3)
    (loss, wanted), (own_loss, found) = single.gradients(first), parallel.gradients(first)
    assert own_loss == pytest.approx(loss, rel=1e-6)
    assert worst_difference(found, wanted) < 1e-6
    for rollouts in (first, *others):
        stats, own = single.update(rollouts), parallel.update(rollouts)
        assert own.grad_norm == pytest.approx(stats.grad_norm, rel=1e-5)
        assert (own.num_tokens_trained, own.num_steps) == (stats.num_tokens_trained, 1)
        assert own.mean_logp_external == pytest.approx(stats.mean_logp_external, rel=1e-6)
    assert furthest(single, parallel) < 1e-6
    known, own_known = single.log_probs(first), parallel.log_probs(first)
    assert [p for r in own_known for c in r for p in c] == pytest.approx(
        [p for r in known for c in r for p in c], abs=1e-5
    )


def test_a_killed_rank_costs_one_call_and_no_step(pair: tuple[Learner, ParallelLearner]) -> None:
    single, parallel = pair
    first, second = rounds(2)
    single.update(first), parallel.update(first)
    before = {name: tensor.clone() for name, tensor in weights(parallel).items()}
    os.kill(rank_pids(parallel)[0], signal.SIGKILL)
    with pytest.raises(ChildDied, match="rank 1 of the update ended with status -9"):
        parallel.update(second)
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(parallel).items())
    assert all(tensor.grad is None for tensor in parallel.masters.by_name.values())
    single.update(second), parallel.update(second)  # fresh ranks, with the optimizer as it was
    assert furthest(single, parallel) < 1e-6


def test_it_goes_on_from_a_single_devices_checkpoint_and_notices_ranks_that_drift_apart(
    pair: tuple[Learner, ParallelLearner], monkeypatch: pytest.MonkeyPatch
) -> None:
    single, parallel = pair
    first, second, third = rounds(3)
    monkeypatch.setattr("swarmd.policy.update.parallel.CHECK_EVERY_STEPS", 1)
    single.update(first)
    parallel.model.load_state_dict(single.model.state_dict())
    parallel.weights_changed()
    parallel.load_optimizer_tensors(
        {key: tensor.clone() for key, tensor in single.optimizer_tensors().items()}
    )
    single.update(second), parallel.update(second)
    assert furthest(single, parallel) < 1e-6
    with torch.no_grad():
        parallel.model.get_input_embeddings().weight[5, 5] += 1e-3  # behind the learner's back
    with pytest.raises(ChildDied, match="drifted apart"):
        parallel.update(third)
    assert rank_pids(parallel) == []


def test_a_lost_rank_ends_the_process_that_updates(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = started(model_dir)
    rollout = own_rollout(policy, "one?")

    def lose(*_: object) -> None:
        raise ChildDied("rank 1 of the update ended")

    class Ended(BaseException): ...

    def end(error: Exception) -> None:
        raise Ended(str(error))

    monkeypatch.setattr(policy._learner, "update", lose)
    monkeypatch.setattr("swarmd.policy.service.end_process", end)
    with pytest.raises(Ended, match="rank 1"):
        policy.update([rollout], round=1, state={}, save="no")


def test_a_collective_that_breaks_is_a_lost_rank(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("Connection closed by peer")

    learner = ParallelLearner(load_model(model_dir, "cpu"), *SETTINGS, devices=DEVICES, model_dir=model_dir)
    monkeypatch.setattr("swarmd.policy.update.parallel.add_up", broken)
    with pytest.raises(ChildDied, match="could not be added up"):
        learner._add_up()


OWNER = """
import sys, time
from pathlib import Path
from swarmd.policy.model.loading import load_model
from tests.policy.update.test_parallel import DEVICES, SETTINGS, ParallelLearner, rank_pids, rounds
folder = Path(sys.argv[1])
learner = ParallelLearner(load_model(folder, "cpu"), *SETTINGS, devices=DEVICES, model_dir=folder)
learner.update(rounds(1)[0])
print(*rank_pids(learner), flush=True)
time.sleep(600)
"""


def test_no_rank_outlives_a_killed_update_process(model_dir: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(model_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_running(pid)
        owner.kill()
        owner.wait()
        assert wait_until_gone(pid)


def test_a_rank_that_cannot_start_is_an_error_and_leaves_nobody(model_dir: Path, tmp_path: Path) -> None:
    learner = ParallelLearner(
        load_model(model_dir, "cpu"), *SETTINGS, devices=DEVICES, model_dir=tmp_path / "gone"
    )
    with pytest.raises(ChildDied, match="rank 1 of the update failed"):
        learner.update(rounds(1)[0])
    assert rank_pids(learner) == []


def test_an_optimizer_that_takes_gradients_one_by_one_is_refused(model_dir: Path) -> None:
    with pytest.raises(ConfigError, match="optimizer on the host"):
        ParallelLearner(
            load_model(model_dir, "cpu"),
            config(),
            execution(optimizer="host"),
            devices=DEVICES,
            model_dir=model_dir,
        )


def pack(*sizes: int) -> Pack:
    made = Pack()
    for size in sizes:
        weighed = WeighedCompletion(
            3, TokenCompletion(tuple(range(size)), 0.1, (float("nan"),) * size), 1 / 3, True
        )
        made.add(PromptGroup((1, 2), (weighed,)))
    return made


def test_packs_go_to_whoever_has_the_least() -> None:
    packs = [pack(size) for size in (10, 80, 30, 40, 5)]
    shares = balanced(packs, 2)
    assert sorted(place for share in shares for place in share) == [0, 1, 2, 3, 4]
    loads = [sum(packs[place].num_tokens for place in share) for share in shares]
    assert abs(loads[0] - loads[1]) <= 10
    assert balanced(packs[:1], 3) == [[0], [], []]


def test_packs_survive_a_frame_bit_for_bit() -> None:
    packs = [pack(3, 4), pack(9)]
    (carried,) = FrameReader(list[Pack]).feed(encode_frame(packs))
    assert repr(carried) == repr(packs)  # repr, since NaN is not equal to itself
