"""The rank processes of a data-parallel update, seen from the update process: started fresh, spoken to, ended. None outlives it."""

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from swarmd.errors import ChildDied
from swarmd.policy.update.collectives import hand_over, join, leave, state_names
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.rank_channel import Channel

END_S = 5.0  # a rank ends when its socket closes; one that does not is killed


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
        self._channels: list[Channel] = []
        try:
            for _ in devices:
                self._spawn()
            config = learner.config.model_dump_json()
            start = {"op": "start", "model_dir": str(model_dir), "config": config, "how": learner.how}
            for number, device in enumerate(devices):
                self.send(number, {**start, "device": device})
            self.answers()
            store, num_ranks, names = str(self._folder / "store"), len(devices) + 1, state_names(learner)
            meeting = {"op": "join", "store": store, "num_ranks": num_ranks, "names": names}
            for number in range(len(devices)):
                self.send(number, {**meeting, "rank": number + 1})
            join(store, 0, num_ranks, learner.model.device)
            hand_over(learner, names, giving=True)
        except BaseException:
            self.close()
            raise

    def send(self, number: int, message: dict[str, Any]) -> None:
        """To the rank `number` + 1."""
        try:
            self._channels[number].send(message)
        except OSError as error:
            raise self._ended(number) from error

    def send_all(self, message: dict[str, Any]) -> None:
        for number in range(len(self._channels)):
            self.send(number, message)

    def answers(self) -> list[tuple[dict[str, Any], dict[str, Tensor]]]:
        """One from each rank, in order."""
        found = []
        for number, channel in enumerate(self._channels):
            try:
                message, tensors = channel.receive()
            except (OSError, EOFError) as error:
                raise self._ended(number) from error
            if message.get("oom"):
                raise MemoryError(f"rank {number + 1} of the update: {message['error']}")
            if "error" in message:
                raise ChildDied(
                    f"rank {number + 1} of the update failed",
                    message["error"],
                    "see its traceback in the update's log",
                )
            found.append((message, tensors))
        return found

    def close(self) -> None:
        """End all of them; what they were computing is lost."""
        for channel in self._channels:
            channel.sock.close()
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
        command = [sys.executable, "-m", "swarmd.policy.update.rank", str(theirs.fileno())]
        with theirs:  # nobody but the rank may hold its end, or it would not notice ours close
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._processes.append(process)
        self._channels.append(Channel(ours))

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
