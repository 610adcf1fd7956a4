"""Master weights and Adam's moments as one thing that takes gradients, steps, is saved, and goes on."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from swarmd.errors import StateError
from swarmd.optimizers import OPTIMIZERS
from swarmd.policy.update.masters import MasterWeights


class Moments(Protocol):
    """Adam's running averages for some of the masters. Allocated at once: a step allocates nothing, and cannot fail halfway."""

    def apply(self) -> None:
        """Adam's step with the gradients that the masters hold."""

    def tensors(self) -> dict[str, Tensor]:
        """The live averages by `<kind>/<parameter name>`; zeros before the first step."""

    def reset(self) -> None:
        """Back to before the first step."""


class Stepped(NamedTuple):
    """What came of a step; `grad_norm` is the gradient's before clipping."""

    loss: float
    grad_norm: float
    taken: bool


class Optimizer:
    """Gradients add up in `masters`; `step` consumes them. The caller clears them afterwards, also after an error.

    Optimizers of one `kind` may go on from each other's saved tensors. `moments` have each master once. The gradient of all
    masters together is scaled down to the norm `grad_norm_max`.
    """

    def __init__(
        self, kind: str, masters: MasterWeights, moments: Sequence[Moments], grad_norm_max: float
    ) -> None:
        self.kind = kind
        self.masters = masters
        self._moments = moments
        self._grad_norm_max = grad_norm_max

    def step(self, loss_T: Tensor) -> Stepped:
        """Clip and step. Where the gradient's norm or the loss is not finite, weights and moments stay as they are."""
        norm_T = torch.nn.utils.get_total_norm(list(self.masters.gradients().values()))
        loss, norm = torch.stack([loss_T.to(norm_T), norm_T]).tolist()  # one wait for the device
        if loss - loss != 0 or norm - norm != 0:
            return Stepped(loss, norm, taken=False)
        torch.nn.utils.clip_grads_with_norm_(self.masters.by_name.values(), self._grad_norm_max, norm_T)
        for moments in self._moments:
            moments.apply()
        self.masters.to_model()
        return Stepped(loss, norm, taken=True)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to go on from, by `<kind of tensor>/<parameter name>`: moments, and the masters of a narrow model.

        The tensors are the live ones: write or clone them before the next step.
        """
        masters = {
            f"master/{name}": master
            for name, master in self.masters.by_name.items()
            if self.masters.is_copy(name)
        }
        return self._moment_tensors() | masters

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> str:
        """Go on from saved `tensors()`; masters, where there are any, also become the model's weights.

        Returns what could not be taken over, in words for the operator, or an empty text. Another kind's moments cannot be:
        they start at zero. Its masters can.

        Raises:
            StateError: names or shapes are not this model's. Nothing has been changed then.
        """
        saved_kind = kind_of(tensors)
        known = not tensors or saved_kind == self.kind
        carried = {key: value for key, value in tensors.items() if known or key.startswith("master/")}
        masters = {f"master/{name}": master for name, master in self.masters.by_name.items()}
        self._take(carried, masters | self._moment_tensors())
        self.masters.to_model()
        return "" if known else f"Adam's moments start at zero: {saved_kind} saved them, {self.kind} goes on"

    def needs_weights(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether going on from `tensors` starts at the weights saved beside them (else at those of the model's folder)."""
        return True

    def close(self) -> None:
        """Leave the model as it would be without this optimizer, so that another can be built on it; its weights stay."""
        self.masters.close()

    def weights_changed(self) -> None:
        """The caller wrote new weights into the model; take them as the masters."""
        self.masters.from_model()

    def _moment_tensors(self) -> dict[str, Tensor]:
        return {key: value for moments in self._moments for key, value in moments.tensors().items()}

    @torch.no_grad()
    def _take(self, carried: Mapping[str, Tensor], live: Mapping[str, Tensor]) -> None:
        """Copy what was saved into the live tensors; moments that were not saved start at zero. All of it or nothing."""
        wrong = sorted(key for key in carried if key not in live or live[key].shape != carried[key].shape)
        if wrong:
            raise StateError(
                f"{len(wrong)} tensors of the optimizer do not fit the model, among them {wrong[0]}",
                why="the checkpoint is of another model",
                fix="name the model the checkpoint was made with, or start from another checkpoint",
            )
        for moments in self._moments:
            moments.reset()
        for key, value in carried.items():
            live[key].copy_(value)


def kind_of(tensors: Mapping[str, Tensor]) -> str:
    """Which kind of optimizer saved these."""
    prefixes = {key.partition("/")[0] for key in tensors}
    return next((kind.name for kind in OPTIMIZERS if kind.saved_mark in prefixes), OPTIMIZERS[0].name)
