"""Full-precision master weights and their gradients, whatever the precision the model computes in.

At learning rate 1e-6 a bfloat16 weight rounds 98 % of its changes away, so a narrow model gets a float32 copy that the
optimizer works on. A float32 (or float64) model is its own master.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MasterWeights:
    """Masters of a model's trainable parameters, by parameter name (a tied weight has one name).

    Gradients of narrow parameters are moved to their master's `grad` as soon as autograd has them, so micro-batches add up
    in float32 and no narrow gradient outlives its use.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in self._parameters.items()}
        self.by_name: dict[str, Tensor] = {
            name: self._master_of(parameter) for name, parameter in self._parameters.items()
        }
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._mover(name))  # type: ignore[no-untyped-call]
            for name, parameter in self._parameters.items()
            if self._is_apart(name)
        ]

    def close(self) -> None:
        """Let go of the model: its gradients are its own again, and other masters may follow."""
        self.clear_gradients()
        for hook in self._hooks:
            hook.remove()

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Close the masters when the block fails, so that others can be built on the model."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def is_copy(self, name: str) -> bool:
        """Whether the master holds more than the model's parameter, and so must be saved with the optimizer."""
        return self.by_name[name].dtype != self._parameters[name].dtype

    def gradient_of(self, parameter: Tensor | None) -> Tensor | None:
        """The tensor in which a parameter's gradient is added up, zeros if there was none yet; None where it is frozen.

        For whoever computes a gradient without autograd, before the backward of the same micro-batch.
        """
        name = None if parameter is None else self._names.get(parameter)
        if name is None:
            return None
        master = self.by_name[name]
        if master.grad is None:
            master.grad = torch.zeros_like(master)
        return master.grad

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
            if self._is_apart(name):
                self._parameters[name].copy_(master)

    @torch.no_grad()
    def from_model(self) -> None:
        """Take the model's weights as they are now: they were loaded behind our back."""
        for name, master in self.by_name.items():
            if self._is_apart(name):
                master.copy_(self._parameters[name])

    def _is_apart(self, name: str) -> bool:
        return self.by_name[name] is not self._parameters[name]

    def _master_of(self, parameter: Tensor) -> Tensor:
        wide = torch.promote_types(parameter.dtype, torch.float32)
        return parameter if parameter.dtype == wide else parameter.detach().to(wide, copy=True)

    def _mover(self, name: str) -> Callable[[Tensor], None]:
        master = self.by_name[name]

        def move(parameter: Tensor) -> None:
            if parameter.grad is None:
                return
            if master.grad is None:
                master.grad = parameter.grad.to(master.dtype)
            else:
                master.grad.add_(parameter.grad)
            parameter.grad = None

        return move
