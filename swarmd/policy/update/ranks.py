"""The rank processes of a data-parallel update, seen from the update process: started fresh, spoken to, ended. None outlives it."""

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist

from swarmd.errors import ChildDied, OutOfMemory
from swarmd.policy.update.collectives import hand_over, join, leave, state_names
from swarmd.policy.update.learner import Learner
from swarmd.processes.frames import FrameReader, Request, Told, encode_frame
from swarmd.processes.values import typed

END_S = 5.0  # a rank ends when its socket closes; one that does not is killed
_READ_BYTES = 1 << 20

T = TypeVar("T")


class Ranks:
    """Ranks 1 and up; this process is rank 0. Usable until the first error, then to be closed.

    Raises:
        ChildDied: one of them ended, now or in any later call.
        MemoryError: one of them ran out of memory.
    """

    def __init__(self, learner: Learner, model_dir: Path, devices: Sequence[str]) -> None:
        self.settings = learner.config, learner.how
        self._folder = Path(tempfile.mkdtemp(prefix="swarmd-ranks-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._sockets: list[socket.socket] = []
        try:
            for _ in devices:
                self._spawn()
            config = learner.config.model_dump_json()
            for number, device in enumerate(devices):
                self.send(
                    number, "start", model_dir=str(model_dir), device=device, config=config, how=learner.how
                )
            self.answers(type(None))
            store, num_ranks, names = str(self._folder / "store"), len(devices) + 1, state_names(learner)
            for number in range(len(devices)):
                self.send(number, "join", store=store, rank=number + 1, num_ranks=num_ranks, names=names)
            join(store, 0, num_ranks, learner.model.device)
            hand_over(learner, names, giving=True)
            self.answers(type(None))
        except BaseException:
            self.close()
            raise

    def send(self, number: int, op: str, **args: object) -> None:
        """Ask the rank `number` + 1 for an operation of `rank.Rank`; `answers` must follow."""
        try:
            self._sockets[number].sendall(encode_frame(Request(0, op, args)))
        except OSError as error:
            raise self._ended(number) from error

    def send_all(self, op: str, **args: object) -> None:
        """Ask every rank for the same."""
        for number in range(len(self._sockets)):
            self.send(number, op, **args)

    def answers(self, kind: type[T]) -> list[T]:
        """A `kind` from each rank, in order."""
        found = []
        for number in range(len(self._sockets)):
            told = self._receive(number)
            if told.error is not None:
                if told.error.kind == OutOfMemory.__name__:
                    raise MemoryError(f"rank {number + 1} of the update: {told.error.why}")
                raise ChildDied(f"rank {number + 1} of the update failed: {told.error.what}", told.error.why)
            found.append(typed(kind, told.value))
        return found

    def close(self) -> None:
        """End all of them; what they were computing is lost."""
        for sock in self._sockets:
            sock.close()
        for process in self._processes:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        leave()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        service = "swarmd.policy.update.rank:Rank"
        command = [sys.executable, "-m", "swarmd.processes.child", str(theirs.fileno()), service]
        with theirs:  # nobody but the rank may hold its end, or it would not notice ours close
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._processes.append(process)
        self._sockets.append(ours)

    def _receive(self, number: int) -> Told:
        reader = FrameReader(Told)  # a rank answers once, and nothing else comes of it
        try:
            while data := self._sockets[number].recv(_READ_BYTES):
                for told in reader.feed(data):
                    return told
        except OSError:
            pass
        raise self._ended(number)

    def _ended(self, number: int) -> ChildDied:
        process = self._processes[number]
        try:
            status: object = process.wait(END_S)
        except subprocess.TimeoutExpired:
            status = "unknown"
        return ChildDied(
            f"rank {number + 1} of the update ended with status {status}",
            "its process was killed or failed",
            "the update goes on with fresh ranks; its log says more",
        )


def ranks_possible(device: torch.device) -> bool:
    """Whether this torch can add gradients up between processes on such a device."""
    if not dist.is_available():
        return False
    return dist.is_nccl_available() if device.type == "cuda" else dist.is_gloo_available()
