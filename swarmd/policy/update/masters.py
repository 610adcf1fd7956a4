"""Full-precision master weights and their gradients, whatever the precision the model computes in.

At learning rate 1e-6 a bfloat16 weight rounds 98 % of its changes away, so a narrow model gets a float32 copy that the
optimizer works on. A float32 (or float64) model is its own master.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class MasterWeights:
    """Masters of a model's trainable parameters, by parameter name (a tied weight has one name).

    Gradients of narrow parameters are moved to their master's `grad` as soon as autograd has them, so micro-batches add up
    in float32 and no narrow gradient outlives its use.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.by_name: dict[str, Tensor] = {}
        self._by_parameter: dict[Tensor, Tensor] = {}
        for name, parameter in self._parameters.items():
            wide = torch.promote_types(parameter.dtype, torch.float32)
            if parameter.dtype == wide:
                master: Tensor = parameter
            else:
                master = parameter.detach().to(wide, copy=True)
                parameter.register_post_accumulate_grad_hook(_move_gradient_to(master))  # type: ignore[no-untyped-call]
            self.by_name[name] = master
            self._by_parameter[parameter] = master

    def is_copy(self, name: str) -> bool:
        """Whether the master is apart from the model's parameter, and so must be saved with the optimizer."""
        return self.by_name[name] is not self._parameters[name]

    def gradient_of(self, parameter: Tensor | None) -> Tensor | None:
        """The tensor in which a parameter's gradient is added up, zeros if there was none yet; None where it is frozen."""
        master = None if parameter is None else self._by_parameter.get(parameter)
        if master is not None and master.grad is None:
            master.grad = torch.zeros_like(master)
        return None if master is None else master.grad

    def gradients(self) -> dict[str, Tensor]:
        return {name: master.grad for name, master in self.by_name.items() if master.grad is not None}

    def clear_gradients(self) -> None:
        for name, master in self.by_name.items():
            master.grad = None
            self._parameters[name].grad = None

    @torch.no_grad()
    def to_model(self) -> None:
        """Write masters into the model, rounded to its precision."""
        for name, master in self.by_name.items():
            if self.is_copy(name):
                self._parameters[name].copy_(master)

    @torch.no_grad()
    def from_model(self) -> None:
        """Take the model's weights as they are now: they were loaded behind our back."""
        for name, master in self.by_name.items():
            if self.is_copy(name):
                master.copy_(self._parameters[name])


def _move_gradient_to(master: Tensor) -> Callable[[Tensor], None]:
    def move(parameter: Tensor) -> None:
        if parameter.grad is None:
            return
        if master.grad is None:
            master.grad = parameter.grad.to(master.dtype)
        else:
            master.grad.add_(parameter.grad)
        parameter.grad = None

    return move
