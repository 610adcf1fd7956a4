"""AdamW on low-rank adapters; the model's own weights are frozen, where they were loaded from.

A checkpoint's weights file holds merged matrices, as any other's, for all who only read weights. This optimizer's tensors hold
the adapters, and going on puts them back on the weights of the model's folder: nothing is merged and split again, so nothing
drifts. Where the adapters stand on other weights (those of a checkpoint that another optimizer made) the matrices under
them are saved too.
"""

from collections.abc import Mapping

from torch import Tensor
from transformers import PreTrainedModel

from swarmd.config import UpdateSection
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.lora import adapted_weights, add_adapters, remove_adapters
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.optimizers.adam import FullMoments
from swarmd.policy.update.optimizers.optimizer import Optimizer, kind_of

# Adapters want about ten times the learning rate of full training, whatever the model and the rank (Thinking Machines, "LoRA
# Without Regret", 2025). At the same rate a node that steps down would all but stop learning.
LEARNING_RATE_FACTOR = 10


def build(model: PreTrainedModel, update: UpdateSection, how: Execution) -> Optimizer:
    """AdamW on adapters, which the model gets here. Raises ConfigError where peft is missing or cannot adapt the model."""
    return LoraOptimizer(model, update, how.lora_rank)


class LoraOptimizer(Optimizer):
    """See `Optimizer`; building it wraps the model's linear layers."""

    def __init__(self, model: PreTrainedModel, update: UpdateSection, rank: int) -> None:
        add_adapters(model, rank)
        masters = MasterWeights(model)
        rate = LEARNING_RATE_FACTOR * update.learning_rate
        moments = FullMoments(masters.by_name, update, rate)
        super().__init__("lora", masters, [moments], update.grad_norm_max)
        self._model = model
        self._on_folder = True  # the adapters stand on the weights of the model's folder

    def tensors(self) -> dict[str, Tensor]:
        bases = {} if self._on_folder else self._bases()
        return self._adapters() | self._moment_tensors() | bases

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> str:
        if tensors and not self._fits(tensors):
            return f"the adapters start at zero, on the merged weights: {_what_saved(tensors)} them, not this lora"
        self._take(tensors, self._adapters() | self._moment_tensors() | self._bases())
        self.masters.to_model()
        self._on_folder &= not any(key.startswith("base/") for key in tensors)
        return ""

    def close(self) -> None:
        super().close()
        remove_adapters(self._model)

    def needs_weights(self, tensors: Mapping[str, Tensor]) -> bool:
        return not self._fits(tensors) or any(key.startswith("base/") for key in tensors)

    def weights_changed(self) -> None:
        super().weights_changed()
        self._on_folder = False
        for moments in self._moments:
            moments.reset()  # they were of adapters that are gone

    def _fits(self, tensors: Mapping[str, Tensor]) -> bool:
        own = self._adapters()
        saved = {key: value for key, value in tensors.items() if key.startswith("adapter/")}
        return saved.keys() == own.keys() and all(saved[key].shape == own[key].shape for key in own)

    def _adapters(self) -> dict[str, Tensor]:
        return {f"adapter/{name}": master for name, master in self.masters.by_name.items()}

    def _bases(self) -> dict[str, Tensor]:
        return {f"base/{name}": weight for name, weight in adapted_weights(self._model).items()}


def _what_saved(tensors: Mapping[str, Tensor]) -> str:
    kind = kind_of(tensors)
    return "a lora of another rank saved" if kind == "lora" else f"{kind} saved"
