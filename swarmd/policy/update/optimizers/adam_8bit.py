"""Adam's moments in 8 bits by blocks of 256, computed by bitsandbytes (arXiv 2110.02861), on CUDA and on a CPU.

Each moment is a byte an element, an index into a codebook of 256 numbers, times the largest magnitude of its block.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor
from transformers import PreTrainedModel

from swarmd.config import UpdateSection
from swarmd.errors import ConfigError
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.optimizers.adam import BETAS, FullMoments
from swarmd.policy.update.optimizers.optimizer import Moments, Optimizer

# The kernels' block size. Tensors below MIN_ELEMENTS, bitsandbytes' default, keep full moments: norms and biases, too few elements
# to save memory on.
BLOCK_ELEMENTS = 256
MIN_ELEMENTS = 4096
INSTALL = "pip install bitsandbytes, or choose another policy.plan"


def build(model: PreTrainedModel, update: UpdateSection, how: Execution) -> Optimizer:
    """8-bit moments for large matrices, full ones for the rest; a model too small for any 8-bit moment gets AdamW.

    Raises:
        ConfigError: bitsandbytes is not installed, or has no such kernel for the model's device.
    """
    masters = MasterWeights(model)
    full = moments_in_full(model)
    large = {
        name: master
        for name, master in masters.by_name.items()
        if name not in full and master.numel() >= MIN_ELEMENTS
    }
    small = {name: master for name, master in masters.by_name.items() if name not in large}
    moments: list[Moments] = []
    with masters.closed_on_error():
        if large:
            moments.append(BlockwiseMoments(large, update))
        if small:
            moments.append(FullMoments(small, update, update.learning_rate))
    return Optimizer("adam-8bit" if large else "adamw", masters, moments, update.grad_norm_max)


def moments_in_full(model: PreTrainedModel) -> set[str]:
    """Names of the input embeddings, tied head or not: their moments stay in full precision, as the method's authors advise.

    A rare token's row has gradients in few steps, its moments span more magnitudes than a codebook: with 8 bits an embedding's
    steps differed from Adam's by 4 to 7 %, a matrix's by 1 to 3 % (two layers of width 128, up to 60 steps).
    """
    embeddings = model.get_input_embeddings().weight
    return {name for name, parameter in model.named_parameters() if parameter is embeddings}


@dataclass(frozen=True)
class _State:
    """One parameter's moments; the keys under which they are saved are the fields' names."""

    step: Tensor
    exp_avg_u8: Tensor
    exp_avg_absmax: Tensor
    exp_avg_sq_u8: Tensor
    exp_avg_sq_absmax: Tensor


class BlockwiseMoments:
    """Two averages in 8 bits: 2.03 bytes a parameter.

    Raises:
        ConfigError: bitsandbytes is not installed, or has no such kernel for the masters' device.
    """

    def __init__(self, masters: Mapping[str, Tensor], update: UpdateSection) -> None:
        self._masters, self._update = masters, update
        device = next(iter(masters.values())).device
        self._functional = _bitsandbytes(device)
        self._codebooks = {
            "exp_avg": self._functional.create_dynamic_map(signed=True).to(device),
            "exp_avg_sq": self._functional.create_dynamic_map(signed=False).to(device),
        }
        self._states = {name: _fresh(master) for name, master in masters.items()}

    def apply(self) -> None:
        for name, master in self._masters.items():
            if master.grad is not None:
                state = self._states[name]
                state.step.add_(1)
                _update(self._functional, master, master.grad, state, self._codebooks, self._update)

    def tensors(self) -> dict[str, Tensor]:
        saved = {f"codebook/{kind}": codebook for kind, codebook in self._codebooks.items()}
        for name, state in self._states.items():
            saved |= {f"{kind}/{name}": value for kind, value in vars(state).items()}
        return saved

    def reset(self) -> None:
        for state in self._states.values():
            for value in vars(state).values():
                value.zero_()  # a block whose scale is zero is zero, whatever its bytes


def _fresh(master: Tensor) -> _State:
    blocks = math.ceil(master.numel() / BLOCK_ELEMENTS)

    def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=master.device)

    return _State(
        torch.zeros((), dtype=torch.float32),
        zeros(*master.shape, dtype=torch.uint8),
        zeros(blocks, dtype=torch.float32),
        zeros(*master.shape, dtype=torch.uint8),
        zeros(blocks, dtype=torch.float32),
    )


@torch.no_grad()
def _update(
    functional: ModuleType,
    master: Tensor,
    gradient: Tensor,
    state: _State,
    codebooks: Mapping[str, Tensor],
    update: UpdateSection,
) -> None:
    functional.optimizer_update_8bit_blockwise(
        "adam",
        gradient,
        master,
        state.exp_avg_u8,
        state.exp_avg_sq_u8,
        *BETAS,
        0.0,
        0.0,
        update.adam_eps,
        int(state.step.item()),
        update.learning_rate,
        codebooks["exp_avg"],
        codebooks["exp_avg_sq"],
        state.exp_avg_absmax,
        state.exp_avg_sq_absmax,
        update.weight_decay,
    )


def _bitsandbytes(device: torch.device) -> ModuleType:
    """Its functions, having stepped a tensor on `device` to see that they work there."""
    try:
        from bitsandbytes import functional as untyped
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigError(
            "plan adam-8bit needs bitsandbytes, which cannot be imported", str(error), INSTALL
        ) from error
    functional: ModuleType = untyped
    probe = torch.zeros(MIN_ELEMENTS, device=device)
    codebook = functional.create_dynamic_map(signed=False).to(device)
    state = _fresh(probe)
    state.step.add_(1)
    try:
        _update(
            functional,
            probe,
            probe.clone(),
            state,
            {"exp_avg": codebook, "exp_avg_sq": codebook},
            UpdateSection(),
        )
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        raise ConfigError(
            f"bitsandbytes has no 8-bit Adam for {device}",
            str(error).partition("\n")[0],
            "choose another policy.plan (host-optimizer and lora need little memory too)",
        ) from error
    return functional
