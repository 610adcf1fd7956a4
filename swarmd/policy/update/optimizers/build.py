"""From `update.optimizer` to an optimizer on a model."""

from transformers import PreTrainedModel

from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.optimizers.adam import FullMoments
from swarmd.policy.update.optimizers.adam_8bit import MIN_ELEMENTS, BlockwiseMoments, moments_in_full
from swarmd.policy.update.optimizers.host import HostMasters
from swarmd.policy.update.optimizers.lora import LoraOptimizer
from swarmd.policy.update.optimizers.optimizer import Moments, Optimizer
from swarmd.policy.update.settings import UpdateSettings


def build_optimizer(model: PreTrainedModel, settings: UpdateSettings) -> Optimizer:
    """An optimizer on a model that lies on its device; for `lora` the model gets its adapters.

    Raises:
        ConfigError: a package that the setting needs is missing, or does not work on this device.
    """
    if settings.optimizer == "lora":
        return LoraOptimizer(model, settings)
    if settings.optimizer == "adam-8bit":
        return _adam_8bit(model, settings)
    masters = HostMasters(model) if settings.optimizer == "host" else MasterWeights(model)
    # Both save the same tensors, and go on from each other's.
    return Optimizer("adamw", masters, [FullMoments(masters.by_name, settings)], settings.grad_norm_max)


def _adam_8bit(model: PreTrainedModel, settings: UpdateSettings) -> Optimizer:
    masters = MasterWeights(model)
    full = moments_in_full(model)
    large = {
        name: master
        for name, master in masters.by_name.items()
        if name not in full and master.numel() >= MIN_ELEMENTS
    }
    small = {name: master for name, master in masters.by_name.items() if name not in large}
    moments: list[Moments] = []
    if large:
        moments.append(BlockwiseMoments(large, settings))
    if small:
        moments.append(FullMoments(small, settings))
    # Of a model too small for any 8-bit moment this is AdamW, in what it saves too.
    return Optimizer("adam-8bit" if large else "adamw", masters, moments, settings.grad_norm_max)
