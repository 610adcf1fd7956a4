"""One more device of a data-parallel update: `python -m swarmd.policy.update.rank FD`, started by `ranks.Ranks` and by nobody else.

It runs the packs it is sent, adds its gradients to the others', and takes the same optimizer step on the same sums. A second thread
watches the socket: when the update process is gone, this one ends at once, also in the middle of a computation.
"""

import os
import queue
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import torch

from swarmd.config import Config
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.model.loading import load_model
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.collectives import add_up, checksum, hand_over, join
from swarmd.policy.update.learner import Learner
from swarmd.policy.update.rank_channel import Channel, packs_from_plain, passes_to_plain


def main(argv: list[str]) -> None:
    """Serve until the update process closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the daemon
    channel = Channel(socket.socket(fileno=int(argv[0])))
    messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def watch() -> None:
        try:
            while True:
                messages.put(channel.receive()[0])
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    rank = Rank(channel)
    while True:
        message = messages.get()
        try:
            getattr(rank, f"on_{message.pop('op')}")(**message)
        except Exception as error:
            channel.send({"error": f"{type(error).__name__}: {error}", "oom": is_out_of_memory(error)})
            raise


class Rank:
    """The operations; each answers once, but for `join` and `step`, which the collectives in them order."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._learner: Learner

    def on_start(self, model_dir: str, device: str, config: str, how: list[Any]) -> None:
        """Load the model; its weights are replaced by `join`. `config` is a `Config` in JSON, `how` an `Execution`."""
        settings = Config.model_validate_json(config)
        if settings.policy.threads:
            torch.set_num_threads(settings.policy.threads)
        if device.startswith("cuda"):
            torch.cuda.set_device(device)
        model = load_model(Path(model_dir), device)
        self._learner = Learner(model, settings, Execution(*how), device=device)
        self._channel.send({"ready": True})

    def on_join(self, store: str, rank: int, num_ranks: int, names: list[str]) -> None:
        """Meet the others, then take over rank 0's weights and optimizer."""
        join(store, rank, num_ranks, self._learner.model.device)
        hand_over(self._learner, names, giving=False)

    def on_run(self, packs: list[Any], fast: bool, with_gradient: bool) -> None:
        """Forward, and with a gradient backward, the packs of this rank."""
        self._learner.masters.clear_gradients()
        passes = self._learner.run_packs(packs_from_plain(packs), fast=fast, with_gradient=with_gradient)
        plain, tensors = passes_to_plain(passes)
        self._channel.send({"passes": plain}, tensors)

    def on_add_up(self) -> None:
        """Every rank's gradients become the sum of all."""
        add_up(self._learner.masters)

    def on_step(self, loss: float, check: bool) -> None:
        """The optimizer step that every rank takes; answers with a checksum of the weights where asked."""
        self._learner.take_step(loss)
        self._learner.masters.clear_gradients()
        self._channel.send({"checksum": checksum(self._learner.masters) if check else None})


if __name__ == "__main__":
    main(sys.argv[1:])
