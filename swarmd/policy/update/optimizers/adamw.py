"""AdamW on full-precision masters, fused: moments beside the masters, on the model's device."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from swarmd.errors import StateError
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.settings import UpdateSettings

ADAM_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class AdamW:
    """Gradients add up in `masters`; `step` consumes them. Whoever adds them up clears them afterwards, whatever happened."""

    def __init__(self, model: PreTrainedModel, settings: UpdateSettings) -> None:
        self.masters = MasterWeights(model)
        self._grad_norm_max = settings.grad_norm_max
        self._adam = torch.optim.AdamW(
            list(self.masters.by_name.values()),
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def step(self, loss: float) -> tuple[float, bool]:
        """Clip and step; returns the gradient's norm before clipping, and whether the step was taken.

        Where the norm or `loss` is not finite it is not, and weights and moments stay as they are.
        """
        norm_T = torch.nn.utils.get_total_norm(list(self.masters.gradients().values()))
        norm = norm_T.item()
        if loss - loss != 0 or norm - norm != 0:
            return norm, False
        torch.nn.utils.clip_grads_with_norm_(self.masters.by_name.values(), self._grad_norm_max, norm_T)
        self._adam.step()
        self.masters.to_model()
        return norm, True

    def tensors(self) -> dict[str, Tensor]:
        """State by `<kind>/<parameter name>`, with the masters of a narrow model.

        The tensors are the live ones: write or clone them before the next step.
        """
        tensors = {}
        for name, master in self.masters.by_name.items():
            for kind, value in self._adam.state.get(master, {}).items():
                tensors[f"{kind}/{name}"] = value
            if self.masters.is_copy(name):
                tensors[f"master/{name}"] = master
        return tensors

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Go on from saved `tensors()`; masters, where there are any, also become the model's weights.

        Raises:
            StateError: names or shapes are not this model's. Nothing has been changed then.
        """
        expected = {f"{kind}/{name}" for kind in (*ADAM_MOMENTS, "master") for name in self.masters.by_name}
        wrong = sorted(set(tensors) - expected) + [
            key
            for key, value in tensors.items()
            if key in expected and key.split("/", 1)[0] != "step" and value.shape != self._shape(key)
        ]
        if wrong:
            raise StateError(
                f"{len(wrong)} tensors of the optimizer do not fit the model, among them {wrong[0]}",
                why="the checkpoint is of another model",
                fix="name the model the checkpoint was made with, or start from another checkpoint",
            )
        for name, master in self.masters.by_name.items():
            saved = {kind: tensors[f"{kind}/{name}"] for kind in ADAM_MOMENTS if f"{kind}/{name}" in tensors}
            self._adam.state[master] = {
                kind: value.to(master.device, torch.float32 if kind == "step" else master.dtype, copy=True)
                for kind, value in saved.items()
            }
            if f"master/{name}" in tensors:
                master.copy_(tensors[f"master/{name}"])
        self.masters.to_model()

    def weights_changed(self) -> None:
        """The caller wrote new weights into the model; take them as the masters."""
        self.masters.from_model()

    def _shape(self, key: str) -> torch.Size:
        return self.masters.by_name[key.split("/", 1)[1]].shape
