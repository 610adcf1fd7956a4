"""The host's optimizer: bit for bit the device's, whatever the precision, the micro-batches and the size of the buffers."""

import pytest
import torch

from swarmd.policy.update.optimizers.host import HostMasters
from swarmd.policy.update.optimizers.staging import Staging
from tests.policy.tiny_models import build, round_of
from tests.policy.update.optimizers.policies import learner_of, learner_on, parameters, same, saved
from tests.policy.update.test_learner import tiny


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["qwen-tied", "qwen-untied", "llama"])
@pytest.mark.parametrize("tokens", [20, 4096])
def test_three_steps_equal_adamws(dtype: torch.dtype, kind: str, tokens: int) -> None:
    here = learner_of("adamw", dtype=dtype, kind=kind, micro_batch_tokens=tokens)
    there = learner_of("host", dtype=dtype, kind=kind, micro_batch_tokens=tokens)
    for number in range(3):
        here.update(round_of(number))
        there.update(round_of(number))
    wanted = parameters(here.model)
    for name, value in parameters(there.model).items():
        assert torch.allclose(value, wanted[name], rtol=1e-6, atol=1e-7)
    assert saved(here).keys() == saved(there).keys()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_micro_batch_equals_adamw_bit_for_bit(dtype: torch.dtype) -> None:
    here, there = learner_of("adamw", dtype=dtype), learner_of("host", dtype=dtype)
    here.update(round_of())
    there.update(round_of())
    assert same(parameters(here.model), parameters(there.model))
    assert same(saved(here), saved(there))


def test_a_model_the_fast_path_does_not_know_steps_the_same() -> None:
    found = []
    for kind in ("adamw", "host"):
        learner = learner_on(tiny("gemma2"), kind)
        assert not learner.update(round_of()).fast_path
        found.append(parameters(learner.model))
    assert same(*found)


def test_gradients_larger_than_a_buffer_arrive_in_parts() -> None:
    model = build(dtype=torch.bfloat16)
    masters = HostMasters(model, buffer_bytes=1000)
    ids = torch.arange(40)[None]
    for _ in range(2):
        model(ids).logits.sum().backward()
    found = masters.gradients()
    masters.clear_gradients()
    assert all(parameter.grad is None for parameter in model.parameters())
    twin = build(dtype=torch.bfloat16)
    twin(ids).logits.sum().backward()
    for name, parameter in twin.named_parameters():
        assert torch.equal(found[name], 2 * parameter.grad.float())


def test_masters_go_back_in_parts_and_rounded() -> None:
    model = build(dtype=torch.bfloat16)
    masters = HostMasters(model, buffer_bytes=1000)
    wanted = {name: (value + 1e-3).bfloat16() for name, value in masters.by_name.items()}
    for master in masters.by_name.values():
        master.add_(1e-3)
    masters.to_model()
    assert same(parameters(model), wanted)


def test_a_failure_on_the_way_is_raised_and_the_next_sum_is_clean() -> None:
    staging = Staging(torch.device("cpu"), buffer_bytes=64)
    target = torch.zeros(100)
    staging.add_to_host(
        target[:50], torch.ones(100), first=True
    )  # shapes that do not fit, after a part that does
    with pytest.raises(RuntimeError):
        staging.finish()
    for _ in range(3):
        staging.add_to_host(target, torch.ones(100), first=False)
    target.zero_()
    staging.abandon()
    staging.add_to_host(target, torch.full((100,), 2.0), first=True)
    staging.finish()
    assert target.tolist() == [2.0] * 100
