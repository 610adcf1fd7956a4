"""Master weights, their gradients and with them Adam's moments in the host's memory; the device holds the model alone.

Each gradient leaves for the host as soon as the backward has it, and is added up there in float32, in every micro-batch: so the
device never holds more than the few that are on their way, and the copies hide behind the rest of the backward. The step comes
after the last, since clipping wants the norm of all.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from swarmd.config import UpdateSection
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.optimizers.adam import on_masters
from swarmd.policy.update.optimizers.optimizer import Optimizer
from swarmd.policy.update.optimizers.staging import BUFFER_BYTES, Staging


def build(model: PreTrainedModel, update: UpdateSection, how: Execution) -> Optimizer:
    """AdamW in the host's memory. It saves the tensors that AdamW on the device saves; each goes on from the other's."""
    return on_masters(HostMasters(model), update)


class HostMasters(MasterWeights):
    """Masters apart from the model whatever its precision.

    A gradient that is computed without autograd, the head's, is added up on the device in float32 for one micro-batch; the
    first gradient of its backward sends it off.
    """

    def __init__(self, model: nn.Module, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        device = next(model.parameters()).device
        self._staging = Staging(device, buffer_bytes=buffer_bytes)
        super().__init__(model)
        self._room: dict[str, Tensor] = {}  # a gradient's memory on the host, kept between steps
        self._on_device: dict[str, Tensor] = {}

    def gradient_of(self, parameter: Tensor | None) -> Tensor | None:
        name = None if parameter is None else self._names.get(parameter)
        if parameter is None or name is None:
            return None
        if name not in self._on_device:
            self._on_device[name] = torch.zeros_like(
                parameter, dtype=self.by_name[name].dtype, requires_grad=False
            )
        return self._on_device[name]

    def gradients(self) -> dict[str, Tensor]:
        self._send_waiting()
        self._staging.finish()
        return super().gradients()

    def clear_gradients(self) -> None:
        self._staging.abandon()
        self._on_device.clear()
        super().clear_gradients()

    def to_model(self) -> None:
        for name, master in self.by_name.items():
            parameter = self._parameters[name].detach()
            if parameter.is_contiguous():
                self._staging.to_device(parameter, master)
            else:
                parameter.copy_(master)
        self._staging.finish()

    def _master_of(self, parameter: Tensor) -> Tensor:
        wide = torch.promote_types(parameter.dtype, torch.float32)
        return parameter.detach().to("cpu", wide, copy=True, memory_format=torch.contiguous_format)

    def _mover(self, name: str) -> Callable[[Tensor], None]:
        def move(parameter: Tensor) -> None:
            self._send_waiting()
            if parameter.grad is not None:
                self._send(name, parameter.grad)
                parameter.grad = None

        return move

    def _send_waiting(self) -> None:
        while self._on_device:
            self._send(*self._on_device.popitem())

    def _send(self, name: str, gradient: Tensor) -> None:
        master = self.by_name[name]
        first = master.grad is None
        if first:
            if name not in self._room:
                self._room[name] = torch.empty_like(master)
            master.grad = self._room[name]
        self._staging.add_to_host(self._room[name], gradient, first=first)
