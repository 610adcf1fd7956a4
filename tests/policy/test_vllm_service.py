"""The policy service with vLLM: both roles in one process, generation alone, and what neither may do to the other."""

import importlib.util
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.errors import ConfigError, StateError
from swarmd.policy.generation import vllm_engine
from swarmd.policy.generation.engine import Sampling
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.policy.service import PolicyService
from tests.policy.folders import build_folder
from tests.policy.services import own_rollout, service, started

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]
PROMPTS = ["one and two?", "what is the answer? " * 20]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("model") / "heads-of-32", hidden=128)


PACKED = "the engine has packed model.layers.0.self_attn.qkv_proj.weight"


def pack_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let vLLM's CPU build replace its matrices by copies that only its kernels can read."""
    monkeypatch.setattr(vllm_engine, "unpacked", lambda wanted: nullcontext())


def greedy(policy: PolicyService) -> list[list[int]]:
    answer = policy.generate(PROMPTS, 1, 0.0, 12, 0)
    return [list(row[0].token_ids) for row in answer.completions_RG]


def expected(policy: PolicyService, model: Any) -> list[list[int]]:
    tokeniser = policy._tokeniser
    engine = TransformersEngine(
        model, eos_ids=tokeniser.eos_ids, pad_id=0, batch_tokens_max=4096, context_tokens_max=256
    )
    rows = engine.generate([tokeniser.prompt_ids(p) for p in PROMPTS], Sampling(1, 0.0, 12, 0))
    return [row[0].ids for row in rows]


@pytest.mark.parametrize("sleeps", [False, True])
@pytest.mark.parametrize("copies", [False, True])
def test_both_roles_in_one_process_always_answer_with_the_newest_weights(
    folder: Path, sleeps: bool, copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = torch.get_num_threads()
    if copies:
        pack_matrices(monkeypatch)
    policy = started(
        folder, engine="vllm", plans=["resident", "time-share"] if sleeps else (), learning_rate=0.05
    )
    info = policy.about()
    assert (info.engine, info.engine_note, info.policy_version) == ("vllm", PACKED * copies, 0)
    assert info.engine_version
    seen = [greedy(policy)]
    for number in (1, 2):
        answer = policy.update(
            [own_rollout(policy, PROMPTS[0], counter=number)], number, {}, False
        ).to_record()
        assert answer["policy_version"] == number
        seen.append(greedy(policy))
        assert seen[-1] == expected(policy, policy._model)
        assert seen[-1] != seen[-2]
    torch.set_num_threads(threads + 1)  # vLLM replaces this function by one that does nothing
    assert torch.get_num_threads() == threads + 1
    torch.set_num_threads(threads)


def test_where_both_cannot_share_new_weights_are_copied_once_and_timed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_matrices(monkeypatch)
    policy = started(folder, engine="vllm")
    assert policy.about().engine_note == PACKED
    assert policy.generate(PROMPTS, 1, 1.0, 4, 0).seconds_weight_sync == 0
    policy.update([own_rollout(policy, PROMPTS[0])], 1, {}, False)
    assert policy.generate(PROMPTS, 1, 1.0, 4, 0).seconds_weight_sync > 0
    assert policy.generate(PROMPTS, 1, 1.0, 4, 0).seconds_weight_sync == 0


def test_generation_alone_has_no_model_beside_the_engine_and_takes_published_weights(
    folder: Path, tmp_path: Path
) -> None:
    learner = started(folder, roles=("update",), learning_rate=0.05)
    policy = started(folder, roles=("generate",), engine="vllm")
    assert policy._model is None
    assert policy.about().num_parameters == learner.about().num_parameters
    rollout = own_rollout(policy, PROMPTS[0])
    first = greedy(policy)
    learner.update([rollout], 1, {}, False)
    published = learner.publish_weights(str(tmp_path))
    policy.load_weights(*published)
    assert policy.about().policy_version == 1
    assert greedy(policy) == expected(policy, learner._model) != first
    with pytest.raises(StateError, match="cannot read weights"):
        policy.load_weights(str(tmp_path / "nothing"), 2)
    assert policy.about().policy_version == 1
    assert greedy(policy) == expected(policy, learner._model)
    assert policy._model is None


def test_generation_alone_resumes_from_the_learners_checkpoint(folder: Path, tmp_path: Path) -> None:
    learner = started(folder, checkpoints=tmp_path, learning_rate=0.05)
    learner.update([own_rollout(learner, PROMPTS[0])], 1, {}, True)
    policy = service(folder, roles=("generate",), engine="vllm", checkpoints=tmp_path)
    assert policy.start().policy_version == 1
    assert greedy(policy) == expected(policy, learner._model)


def test_both_roles_resume_with_the_checkpoints_weights_in_the_engine(folder: Path, tmp_path: Path) -> None:
    first = started(folder, checkpoints=tmp_path, learning_rate=0.05)
    first.update([own_rollout(first, PROMPTS[0])], 1, {}, True)
    second = started(folder, engine="vllm", checkpoints=tmp_path)
    assert greedy(second) == expected(second, first._model)


def test_heads_that_the_cpu_build_has_no_kernel_for_are_refused_at_the_start(tmp_path: Path) -> None:
    small = build_folder(tmp_path / "heads-of-8", hidden=32)
    with pytest.raises(ConfigError, match="heads of 8"):
        started(small, engine="vllm")
