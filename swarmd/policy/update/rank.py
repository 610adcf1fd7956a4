"""One more device of a data-parallel update: a service of `processes.child`, started by `ranks.Ranks` and by nobody else."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import torch
from safetensors.torch import load, save
from torch import Tensor

from swarmd.config import Config
from swarmd.errors import LocalError, OutOfMemory
from swarmd.policy.faults import loses_device
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.model.loading import load_model
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.collectives import add_up, checksum, hand_over, join
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.packing import Pack
from swarmd.policy.update.token_losses import TokenPass
from swarmd.processes.ends import end_process
from swarmd.processes.values import typed


class Passed(NamedTuple):
    """A `TokenPass` for a frame, with its tensors in safetensors under their fields' names."""

    num_forwarded: int
    tensors: bytes

    @classmethod
    def of(cls, found: TokenPass) -> Self:
        """A pass, on its way to another process."""
        # the format refuses tensors that share memory, such as two masks that are both all False
        tensors = {
            name: value.cpu().clone() for name, value in vars(found).items() if isinstance(value, Tensor)
        }
        return cls(found.num_forwarded, save(tensors))

    def token_pass(self, device: torch.device) -> TokenPass:
        """The pass again, on `device`."""
        tensors = {name: tensor.to(device) for name, tensor in load(self.tensors).items()}
        return TokenPass(num_forwarded=self.num_forwarded, **tensors)


class Rank:
    """Runs the packs it is sent, adds its gradients to the others', and takes the same optimizer step on the same sums.

    Args:
        config: a `Config` in JSON.
        how: an `Execution`.
    """

    OPS: ClassVar[frozenset[str]] = frozenset({"join", "run", "add_up", "step"})
    ruined_by = staticmethod(loses_device)

    def __init__(
        self, emit: Callable[[object], None], *, model_dir: str, device: str, config: str, how: object
    ) -> None:
        self._model_dir, self._device = Path(model_dir), device
        self._config, self._how = Config.model_validate_json(config), typed(Execution, how)
        self._learner: Learner

    def start(self) -> None:
        """Load the model; `join` replaces its weights."""
        if self._config.policy.threads:
            torch.set_num_threads(self._config.policy.threads)
        if self._device.startswith("cuda"):
            torch.cuda.set_device(self._device)
        model = load_model(self._model_dir, self._device)
        with _lack_of_memory_is_told():
            self._learner = Learner(model, self._config, self._how, device=self._device)

    def join(self, store: str, rank: int, num_ranks: int, names: Sequence[str]) -> None:
        """Meet the others, then take over rank 0's weights and optimizer."""
        with _ends_on_error():
            join(store, rank, num_ranks, self._learner.model.device)
            hand_over(self._learner, names, giving=False)

    def run(self, packs: Sequence[Pack], fast: bool, with_gradient: bool) -> list[Passed]:
        """Forward, and with a gradient backward, the packs of this rank."""
        self._learner.masters.clear_gradients()
        with _lack_of_memory_is_told():
            passes = self._learner.run_packs(packs, fast=fast, with_gradient=with_gradient)
            return [Passed.of(found) for found in passes]

    def add_up(self) -> None:
        """Every rank's gradients become the sum of all."""
        with _ends_on_error():
            add_up(self._learner.masters)

    def step(self, loss: float, check: bool) -> int | None:
        """The optimizer step that every rank takes; a checksum of the weights where asked."""
        with _lack_of_memory_is_told():
            self._learner.take_step(torch.tensor(loss, dtype=torch.float64))
            self._learner.masters.clear_gradients()
            return checksum(self._learner.masters) if check else None


@contextmanager
def _lack_of_memory_is_told() -> Iterator[None]:
    """The update process knows a lack of memory by its kind, and steps down to a plan that needs less."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory("a rank of the update ran out of memory", str(error)) from error


@contextmanager
def _ends_on_error() -> Iterator[None]:
    """The others of a collective wait for this rank: one that fails closes its connections at once."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it was, the others must not wait two minutes
        end_process(LocalError("a collective of the update failed", f"{type(error).__name__}: {error}"))
