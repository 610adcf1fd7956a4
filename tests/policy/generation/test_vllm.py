"""The vLLM engine, in this process, on vLLM's real CPU build: against transformers, the trainer, and hand-overs that do not fit."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from math import exp
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from swarmd.errors import LocalError, StateError
from swarmd.policy.generation import vllm_engine
from swarmd.policy.generation.engine import Sampled, Sampling
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.policy.generation.vllm_engine import VllmEngine, seed_of
from swarmd.policy.generation.vllm_process import inspected_here
from swarmd.policy.model.loading import load_model
from swarmd.policy.state.shapes import ModelShapes
from swarmd.policy.state.weights import FILE_NAME, named_tensors, save_weights
from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from tests.policy.folders import build_folder
from tests.policy.settings import learner_with

# A process group of its own, `make test` says how: vLLM sets up torch for the whole process that it is imported into.
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]
EOS, CONTEXT = (0, 2), 256
numbers = torch.Generator().manual_seed(0)
# short, ragged, and longer than several blocks of the cache, one of these sharing most of another
SHORT = [torch.randint(3, 280, (n,), generator=numbers).tolist() for n in (1, 9, 40)]
LONG = torch.randint(3, 280, (170,), generator=numbers).tolist()
PROMPTS = [*SHORT, LONG, [*LONG[:150], 5, 6]]


@dataclass
class Pair:
    """One engine and the live model whose weights it was last given."""

    engine: VllmEngine
    folder: Path
    model: Any

    def greedy(self, prompts: list[list[int]] = PROMPTS, tokens_max: int = 24) -> list[list[Sampled]]:
        return self.engine.generate(prompts, Sampling(1, 0.0, tokens_max, 0))

    def expected(self, prompts: list[list[int]] = PROMPTS, tokens_max: int = 24) -> list[list[Sampled]]:
        reference = TransformersEngine(
            self.model, eos_ids=EOS, pad_id=0, batch_tokens_max=10_000, context_tokens_max=CONTEXT
        )
        return reference.generate(prompts, Sampling(1, 0.0, tokens_max, 0))

    def train(self, seed: int) -> None:
        """Change every weight of the live model, as an update would, only more."""
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)


def give_up(error: LocalError) -> None:
    raise error


def close(engine: VllmEngine) -> None:
    """End the engine and leave the process group that it joined."""
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    engine._engine.engine_core.shutdown()
    cleanup_dist_env_and_memory()


@pytest.fixture(scope="module", params=["tied", "untied"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = build_folder(
        tmp_path_factory.mktemp("model") / request.param, hidden=128, tied=request.param == "tied"
    )
    engine = VllmEngine(
        folder,
        device="cpu",
        shapes=ModelShapes.of_folder(folder),
        eos_ids=EOS,
        batch_tokens_max=4096,
        context_tokens_max=CONTEXT,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm_engine, "end_process", give_up)
        yield Pair(engine, folder, load_model(folder, "cpu"))
    close(engine)


def assert_same(found: list[list[Sampled]], expected: list[list[Sampled]]) -> None:
    flat, wanted = [*chain(*found)], [*chain(*expected)]
    assert [(s.ids, s.finished) for s in flat] == [(s.ids, s.finished) for s in wanted]
    for one, other in zip(flat, wanted, strict=True):
        assert one.logps == pytest.approx(other.logps, abs=1e-4)


def test_greedy_is_transformers_token_for_token_before_and_after_every_update(
    pair: Pair, tmp_path: Path
) -> None:
    assert_same(pair.greedy(), pair.expected())
    before = pair.greedy()
    pair.train(seed=1)
    pair.engine.load_weights(named_tensors(pair.model), 1)
    assert_same(pair.greedy(), pair.expected())
    pair.train(seed=2)
    pair.engine.load_weights(save_weights(pair.model, tmp_path, 2), 2)
    assert_same(pair.greedy(), pair.expected())
    assert [s.ids for row in pair.greedy() for s in row] != [s.ids for row in before for s in row]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_trainer_gives_the_tokens_the_same_probability(pair: Pair, temperature: float) -> None:
    found = pair.engine.generate(PROMPTS, Sampling(32, temperature, 24, 7))
    rollouts = [
        TokenRollout(
            tuple(prompt), tuple(TokenCompletion(tuple(s.ids), 0.0, finished=s.finished) for s in row), False
        )
        for prompt, row in zip(PROMPTS, found, strict=True)
    ]
    learner = learner_with(pair.model, temperature=temperature, device="cpu")
    trainers = [logp for row in learner.log_probs(rollouts) for logps in row for logp in logps]
    engines = [logp for row in found for s in row for logp in s.logps]
    assert len(engines) > 1000
    ratios = [exp(t - e) for t, e in zip(trainers, engines, strict=True)]
    assert sum(ratios) / len(ratios) == pytest.approx(1, abs=0.01)
    assert max(abs(ratio - 1) for ratio in ratios) < 0.01


def test_tokens_are_drawn_as_often_as_their_probability_says(pair: Pair) -> None:
    num = 2000
    (found,) = pair.engine.generate([SHORT[1]], Sampling(num, 1.0, 1, 3))
    probability = {s.ids[0]: exp(s.logps[0]) for s in found}
    for token, p in probability.items():
        times = sum(s.ids == [token] for s in found)
        assert abs(times - num * p) < 5 * (num * p * (1 - p)) ** 0.5 + 1


def test_equal_seeds_repeat_and_others_do_not(pair: Pair) -> None:
    def ids(seed: int) -> list[list[tuple[int, ...]]]:
        twice = [SHORT[1], SHORT[1], LONG]
        return [
            [tuple(s.ids) for s in row] for row in pair.engine.generate(twice, Sampling(4, 1.0, 16, seed))
        ]

    first = ids(1)
    assert ids(1) == first
    assert ids(2) != first
    assert len({completion for row in first for completion in row}) == 12  # by prompt and completion, too


def test_a_completion_ends_with_an_end_token_or_for_lack_of_room(pair: Pair) -> None:
    (found,) = pair.engine.generate([SHORT[0]], Sampling(200, 1.0, 24, 5))
    assert {s.ids[-1] for s in found if s.finished} == set(EOS)
    for s in found:
        assert not set(s.ids[:-1]) & set(EOS)
        assert s.finished == (s.ids[-1] in EOS)
        assert s.finished or len(s.ids) == 24
        assert len(s.logps) == len(s.ids)
    assert not all(s.finished for s in found)


def test_a_prompt_near_the_end_of_the_context_leaves_what_room_there_is(pair: Pair) -> None:
    prompts = [[7] * CONTEXT, [7] * (CONTEXT + 9), [7] * (CONTEXT - 3), [7]]
    assert_same(pair.greedy(prompts), pair.expected(prompts))
    full, beyond = pair.engine.generate(prompts[:2], Sampling(3, 1.0, 8, 1))
    assert full == beyond == [Sampled()] * 3


def spoil(kind: str, tensors: dict[str, torch.Tensor]) -> str:
    """Make the tensors unfit, and say what the message must name."""
    name = "model.layers.1.mlp.up_proj.weight"
    if kind == "missing":
        del tensors[name]
    elif kind == "shape":
        tensors[name] = tensors[name][:-1].contiguous()
    elif kind == "transposed":
        tensors[name] = tensors[name].T.contiguous()
    else:
        name = "model.layers.2.mlp.up_proj.weight"
        tensors[name] = torch.zeros(2, 2)
    return name


@pytest.mark.parametrize("kind", ["missing", "shape", "transposed", "unknown"])
@pytest.mark.parametrize("way", ["memory", "file"])
def test_weights_that_do_not_fit_are_refused_and_the_engine_is_as_it_was(
    pair: Pair, kind: str, way: str, tmp_path: Path
) -> None:
    tensors = {name: tensor + 1 for name, tensor in named_tensors(pair.model).items()}
    name = spoil(kind, tensors)
    save_file(tensors, tmp_path / FILE_NAME)
    before = pair.greedy()
    with pytest.raises(StateError, match=name.replace(".", r"\.")):
        pair.engine.load_weights(tensors if way == "memory" else tmp_path, 9)
    assert_same(pair.greedy(), before)


def test_a_file_that_is_none_is_refused(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot read weights"):
        pair.engine.load_weights(tmp_path, 9)
    (tmp_path / FILE_NAME).write_bytes(b"no safetensors")
    with pytest.raises(StateError, match="cannot read weights"):
        pair.engine.load_weights(tmp_path, 9)


def test_a_tied_head_may_come_along_or_not(pair: Pair, tmp_path: Path) -> None:
    shapes = ModelShapes.of_folder(pair.folder)
    tensors = load_file(pair.folder / FILE_NAME)
    assert ("lm_head.weight" in tensors) == (not shapes.head_is_tied)
    tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"].clone())
    shapes.check({name: tuple(tensor.shape) for name, tensor in tensors.items()}, "here")
    assert shapes.num_parameters == sum(parameter.numel() for parameter in pair.model.parameters())


def test_sleep_does_nothing_on_a_cpu(pair: Pair) -> None:
    before = pair.greedy()
    assert pair.engine.sleep() is False
    assert_same(pair.greedy(), before)


def test_waking_brings_weights_before_the_cache(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: calls.append((name, *args, *kwargs.values())) or True

    monkeypatch.setattr(pair.engine, "_engine", Recorder())
    monkeypatch.setattr(pair.engine, "_can_sleep", True)
    assert pair.engine.sleep() is True
    assert pair.engine.sleep() is True  # once
    with pytest.raises(LocalError, match="sleeps"):
        pair.greedy()
    pair.engine.load_weights(named_tensors(pair.model), 3)
    assert [call[:2] for call in calls if call[0] != "collective_rpc"] == [
        ("sleep", 2),
        ("wake_up", ["weights"]),
        ("wake_up", ["kv_cache"]),
        ("reset_prefix_cache",),
        ("set_weight_version", "3"),
    ]
    assert [call[0] for call in calls].index("collective_rpc") == 2


def test_with_shared_weights_only_the_cache_sleeps_and_generating_wakes_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: calls.append((name, *args, *kwargs.values())) or True

        def has_unfinished_requests(self) -> bool:
            return False

    monkeypatch.setattr(pair.engine, "_engine", Recorder())
    monkeypatch.setattr(pair.engine, "_can_sleep", True)
    monkeypatch.setattr(pair.engine, "keeps_weights", False)
    assert [pair.engine.sleep(), pair.engine.sleep()] == [False, False]  # nothing is to be loaded
    pair.engine.generate([], Sampling(1, 0.0, 4, 0))
    pair.engine.generate([], Sampling(1, 0.0, 4, 0))
    assert calls == [
        ("collective_rpc", "discard", (("kv_cache", "workspace"),)),
        ("collective_rpc", "wake_up", (["kv_cache"],)),
        ("reset_prefix_cache",),
        ("reset_prefix_cache",),
    ]


def test_what_remains_in_the_cache_after_new_weights_ends_the_process(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair.engine._engine, "reset_prefix_cache", lambda: False)
    with pytest.raises(LocalError, match="the process ends") as caught:
        pair.greedy()
    assert "prefix cache" in caught.value.why


@pytest.mark.parametrize("operation", ["generate", "load_weights"])
def test_a_failure_within_vllm_ends_the_process(
    pair: Pair, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of luck")

    operations = {
        "generate": pair.greedy,
        "load_weights": lambda: pair.engine.load_weights(named_tensors(pair.model), 3),
    }
    monkeypatch.setattr(pair.engine._engine, "collective_rpc", fail)
    monkeypatch.setattr(pair.engine._engine, "add_request", fail)
    with pytest.raises(LocalError, match="the process ends") as caught:
        operations[operation]()
    assert "out of luck" in caught.value.why


def test_a_models_class_is_looked_at_in_this_process() -> None:
    from vllm.model_executor.models import registry

    elsewhere = registry._run_in_subprocess
    with inspected_here():
        assert registry._run_in_subprocess(os.getpid) == os.getpid()
    assert registry._run_in_subprocess is elsewhere


def test_the_process_ends_with_the_reason_in_its_log() -> None:
    script = (
        "from swarmd.errors import LocalError\nfrom swarmd.processes.ends import end_process\n"
        "end_process(LocalError('vLLM failed', 'for a reason'))\nprint('never')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert (ended.returncode, ended.stdout) == (70, "")
    assert ended.stderr.endswith("vLLM failed\n  for a reason\n")


def test_seeds_of_prompts_are_far_apart() -> None:
    seeds = sorted(seed_of(seed, index) for seed in range(50) for index in range(50))
    assert min(later - earlier for earlier, later in pairwise(seeds)) > 16384
    assert 0 <= seeds[0] <= seeds[-1] < 2**62
