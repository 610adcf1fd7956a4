"""8-bit Adam: near Adam, small in memory, and an error in words where it cannot run."""

import sys

import pytest
import torch

from swarmd.errors import ConfigError
from swarmd.policy.update.optimizers import adam_8bit
from tests.policy.tiny_models import round_of
from tests.policy.update.optimizers.policies import learner_of, parameters, saved


@pytest.mark.parametrize("kind", ["qwen-tied", "qwen-untied"])
def test_twenty_steps_stay_near_adams(kind: str) -> None:
    full, narrow = (learner_of(name, kind=kind, learning_rate=1e-3) for name in ("adamw", "adam-8bit"))
    start = parameters(full.model)
    for number in range(20):
        full.update(round_of(number))
        narrow.update(round_of(number))
    for name, wanted in parameters(full.model).items():
        moved = (wanted - start[name]).norm()
        assert (narrow.model.get_parameter(name) - wanted).norm() < 0.1 * moved


def test_matrices_have_8_bit_moments_norms_and_embeddings_full_ones() -> None:
    learner = learner_of("adam-8bit")
    learner.update(round_of())
    kinds = {key: value.dtype for key, value in saved(learner).items()}
    assert kinds["exp_avg_u8/model.layers.0.mlp.up_proj.weight"] == torch.uint8
    assert kinds["exp_avg_sq_absmax/model.layers.0.mlp.up_proj.weight"] == torch.float32
    assert kinds["exp_avg/model.norm.weight"] == torch.float32
    assert kinds["exp_avg/model.embed_tokens.weight"] == torch.float32
    assert "exp_avg/model.layers.0.mlp.up_proj.weight" not in kinds


def test_saved_moments_are_adams_within_a_codebooks_step() -> None:
    from bitsandbytes.functional import dequantize_blockwise

    name = "model.layers.0.mlp.up_proj.weight"
    full, narrow = saved_after("adamw"), saved_after("adam-8bit")
    for moment in ("exp_avg", "exp_avg_sq"):
        found = dequantize_blockwise(
            narrow[f"{moment}_u8/{name}"],
            absmax=narrow[f"{moment}_absmax/{name}"],
            code=narrow[f"codebook/{moment}"],
            blocksize=adam_8bit.BLOCK_ELEMENTS,
        )
        wanted = full[f"{moment}/{name}"]
        assert (found - wanted).norm() < 0.03 * wanted.norm()


def saved_after(kind: str) -> dict[str, torch.Tensor]:
    learner = learner_of(kind)
    learner.update(round_of())
    return saved(learner)


def test_without_bitsandbytes_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(ConfigError) as raised:
        learner_of("adam-8bit")
    assert "pip install bitsandbytes" in raised.value.fix


def test_a_device_without_the_kernel_is_refused_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    from bitsandbytes import functional

    def missing(*_: object) -> None:
        raise NotImplementedError("no kernel for this backend")

    monkeypatch.setattr(functional, "optimizer_update_8bit_blockwise", missing)
    with pytest.raises(ConfigError, match="no 8-bit Adam for cpu"):
        learner_of("adam-8bit")
