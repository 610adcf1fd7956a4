"""From `update.optimizer` to an optimizer on a model."""

from transformers import PreTrainedModel

from swarmd.errors import OutOfMemory
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.optimizers.adam import FullMoments
from swarmd.policy.update.optimizers.adam_8bit import MIN_ELEMENTS, BlockwiseMoments, moments_in_full
from swarmd.policy.update.optimizers.host import HostMasters
from swarmd.policy.update.optimizers.lora import LoraOptimizer
from swarmd.policy.update.optimizers.optimizer import Moments, Optimizer
from swarmd.policy.update.settings import UpdateSettings


def build_optimizer(model: PreTrainedModel, settings: UpdateSettings) -> Optimizer:
    """An optimizer on a model that lies on its device; for `lora` the model gets its adapters.

    Masters and moments are allocated here, so what does not fit says so now and not in the first step.

    Raises:
        OutOfMemory: they do not fit.
        ConfigError: a package that the setting needs is missing, or does not work on this device.
    """
    try:
        if settings.optimizer == "lora":
            return LoraOptimizer(model, settings)
        masters = HostMasters(model) if settings.optimizer == "host" else MasterWeights(model)
        try:
            return _on_masters(model, masters, settings)
        except BaseException:
            masters.close()
            raise
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"the optimizer {settings.optimizer} does not fit in memory",
            str(error).partition("\n")[0],
            "adam-8bit, host and lora need less than adamw, in this order; `swarmd doctor memory` shows the plans",
        ) from error


def _on_masters(model: PreTrainedModel, masters: MasterWeights, settings: UpdateSettings) -> Optimizer:
    if settings.optimizer == "adam-8bit":
        return _adam_8bit(model, masters, settings)
    # adamw and host save the same tensors, and go on from each other's.
    return Optimizer("adamw", masters, [FullMoments(masters.by_name, settings)], settings.grad_norm_max)


def _adam_8bit(model: PreTrainedModel, masters: MasterWeights, settings: UpdateSettings) -> Optimizer:
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
