"""From an optimizer's name to that optimizer on a model."""

from importlib import import_module

from transformers import PreTrainedModel

from swarmd.config import UpdateSection
from swarmd.errors import OutOfMemory
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.optimizers.optimizer import Optimizer


def build_optimizer(model: PreTrainedModel, update: UpdateSection, how: Execution) -> Optimizer:
    """An optimizer on a model that lies on its device.

    Masters and moments are allocated here, so what does not fit says so now and not in the first step.

    Raises:
        OutOfMemory: they do not fit.
        ConfigError: a package that the optimizer needs is missing, or does not work on this device.
    """
    module, _, name = how.kind.builder.partition(":")
    try:
        optimizer: Optimizer = getattr(import_module(module), name)(model, update, how)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"the optimizer {how.optimizer} does not fit in memory",
            str(error).partition("\n")[0],
            "choose a later policy.plan, which needs less; `swarmd doctor memory` shows the plans in order",
        ) from error
    return optimizer
