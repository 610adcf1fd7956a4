"""Tensors between a device and the host through a few small buffers, while both go on computing.

On CUDA the buffers are pinned and the copies run on a stream of their own. On any other device the same steps are plain copies.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue

import torch
from torch import Tensor

from swarmd.policy.plans.needs import HOST_BUFFER_BYTES

# At the 25 GB/s of PCIe 4 a buffer is on its way for 1.3 ms, a hundred times what it takes to launch the copy; half the size would
# do, double would only take memory. One buffer being filled, one being added, and two for the times when either is behind.
NUM_BUFFERS = 4
BUFFER_BYTES = HOST_BUFFER_BYTES // NUM_BUFFERS


class Staging:
    """Copies in the order they were asked for. One thread does the host's part, so sums do not depend on timing."""

    def __init__(self, device: torch.device, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if self._cuda else None  # type: ignore[no-untyped-call]
        self._buffer_bytes = buffer_bytes
        self._free: SimpleQueue[Tensor] = SimpleQueue()
        for _ in range(NUM_BUFFERS):
            self._free.put(torch.empty(buffer_bytes, dtype=torch.uint8, pin_memory=self._cuda))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="optimizer-staging")
        self._pending: list[Future[None]] = []

    @torch.no_grad()
    def add_to_host(self, target: Tensor, source: Tensor, *, first: bool) -> None:
        """Add `source`, on the device, to `target`, on the host (`first`: replace it). Returns before it has happened.

        `source` may be dropped at once. Blocks while all buffers are full, which bounds what a fast device piles up.
        """
        source_N, target_N = source.reshape(-1), target.view(-1)
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(source.device))
            source_N.record_stream(self._stream)
        for part in self._parts(source_N):
            buffer = self._free.get()
            staged_N = buffer[: (part.stop - part.start) * source.element_size()].view(source.dtype)
            with self._on_stream():
                staged_N.copy_(source_N[part], non_blocking=True)
            self._then(buffer, self._adder(target_N[part], staged_N, first))

    @torch.no_grad()
    def to_device(self, target: Tensor, source: Tensor) -> None:
        """Write `source`, on the host, to `target`, on the device, rounded to its precision. Returns before it has happened."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(target.device))
        source_N, target_N = source.view(-1), target.view(-1)
        for part in self._parts(target_N):
            buffer = self._free.get()
            staged_N = buffer[: (part.stop - part.start) * target.element_size()].view(target.dtype)
            staged_N.copy_(source_N[part])
            with self._on_stream():
                target_N[part].copy_(staged_N, non_blocking=True)
            self._then(buffer, lambda: None)  # the buffer was only on its way out

    def finish(self) -> None:
        """Wait until everything has happened. Raises what went wrong on the way."""
        pending, self._pending = self._pending, []
        errors = [error for error in (future.exception() for future in pending) if error is not None]
        if errors:
            raise errors[0]

    def abandon(self) -> None:
        """Wait, and forget what went wrong: the result is thrown away."""
        pending, self._pending = self._pending, []
        for future in pending:
            future.exception()

    def _parts(self, tensor_N: Tensor) -> list[slice]:
        size = self._buffer_bytes // tensor_N.element_size()
        return [
            slice(start, min(start + size, tensor_N.numel())) for start in range(0, tensor_N.numel(), size)
        ]

    def _on_stream(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(self._stream) if self._stream is not None else nullcontext()

    def _then(self, buffer: Tensor, work: Callable[[], object]) -> None:
        """When the copies so far have arrived do `work`, then give the buffer back."""
        event = self._stream.record_event() if self._stream is not None else None

        def land() -> None:
            try:
                if event is not None:
                    event.synchronize()
                work()
            finally:
                self._free.put(buffer)

        self._pending.append(self._thread.submit(land))

    def _adder(self, target_N: Tensor, staged_N: Tensor, first: bool) -> Callable[[], object]:
        return lambda: target_N.copy_(staged_N) if first else target_N.add_(staged_N)
