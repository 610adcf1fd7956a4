"""Saves checkpoints while the model's process goes on: tensors are copied to the host's memory, and written from there.

A thread copies and writes. The tensors must not change before it has copied them all, and `release` waits until then. The copy runs
beside the next generation, which only reads weights. One checkpoint is written at a time.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from swarmd.clients.policy import Save, Saved
from swarmd.errors import Failure
from swarmd.policy.plans.room import look
from swarmd.policy.state import checkpoints
from swarmd.policy.state.checkpoints import Content
from swarmd.policy.state.durable import HOST_RESERVE_BYTES


class Saving:
    """Writes one directory's checkpoints, one after another.

    Args:
        keep: checkpoints that stay, besides the one that a round's state asks for.
        host_free: free bytes of the host's memory, None where nobody can tell.
    """

    def __init__(
        self, directory: Path, keep: int, host_free: Callable[[], int | None] = lambda: look("cpu").free_bytes
    ) -> None:
        self._directory, self._keep, self._host_free = directory, keep, host_free
        self._thread: threading.Thread | None = None
        self._copied = threading.Event()
        self._outcome = Saved()
        self._held_s = 0.0

    def save(self, round: int, save: Save, content: Callable[[], Content]) -> Saved:
        """Do what is asked for a round, and say what is known now: of its checkpoint, or else of the last one in the background."""
        earlier = self.outcome(wait=save == "now")
        if save == "no" or (save == "now" and earlier.round == round and not earlier.failure):
            return earlier
        if save == "now":
            return self.now(content())
        begun = self.begin(content())
        return begun if begun.round else earlier

    def now(self, content: Content) -> Saved:
        """Write a checkpoint straight from the live tensors, after the one under way."""
        self.finish()
        saved = self._written(content)
        return saved._replace(seconds_held=saved.seconds)

    def begin(self, content: Content) -> Saved:
        """Write a checkpoint in the background, after the one under way; `outcome` tells later what came of it.

        Where the host has no memory for a copy, the checkpoint is written at once, and the answer tells of it.
        """
        self.finish()
        free = self._host_free()
        if free is not None and content.size_bytes + HOST_RESERVE_BYTES > free:
            return self.now(content)
        self._copied.clear()
        self._held_s = 0.0
        # The thread alone holds the content, so that a plan can give the live tensors' memory back once they are copied.
        waiting = [(content, _stream_of(content))]
        self._thread = threading.Thread(target=self._run, args=(waiting,), name="checkpoint", daemon=True)
        self._thread.start()
        return Saved()

    def release(self) -> None:
        """Wait until the live tensors may change."""
        if self._thread is not None:
            began_s = time.perf_counter()
            self._copied.wait()
            self._held_s += time.perf_counter() - began_s

    def finish(self) -> None:
        """Wait until the checkpoint under way is on disk, or has failed."""
        if self._thread is not None:
            self._thread.join()

    def outcome(self, *, wait: bool = False) -> Saved:
        """What came of the last checkpoint in the background, told once; nothing while it lasts, unless `wait`."""
        if self._thread is None or (self._thread.is_alive() and not wait):
            return Saved()
        self._thread.join()
        self._thread = None
        return self._outcome._replace(seconds_held=self._held_s)

    def _run(self, waiting: list[tuple[Content, AbstractContextManager[object]]]) -> None:
        began_s = time.perf_counter()
        content, stream = waiting.pop()
        try:
            with stream:
                content = replace(
                    content, weights=_on_host(content.weights), optimizer=_on_host(content.optimizer)
                )
        except Exception as error:  # noqa: BLE001 - whatever failed is told with the next answer
            self._outcome = Saved(round=content.round, failure=Failure.of(error))
            return
        finally:
            self._copied.set()
        self._outcome = self._written(content)._replace(seconds=time.perf_counter() - began_s)

    def _written(self, content: Content) -> Saved:
        began_s = time.perf_counter()
        try:
            name = checkpoints.save(self._directory, content, keep=self._keep)
        except Exception as error:  # noqa: BLE001 - no failure of a checkpoint undoes an update
            return Saved(round=content.round, failure=Failure.of(error))
        return Saved(content.round, name, None, time.perf_counter() - began_s, content.size_bytes)


def _stream_of(content: Content) -> AbstractContextManager[object]:
    """On CUDA a stream for the copies, behind what has been asked of the device so far."""
    device = next(iter(content.weights.values())).device
    if device.type != "cuda":
        return nullcontext()
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)


def _on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
