"""The zygote: one single-threaded process that knows the manifest's datasets and forks a worker for every call that scores.

`python -m swarmd.questions.zygote FD` starts with a clean environment and talks over the inherited socket. The zygote sees
addresses of questions and no completion: completions go from the service straight to the worker. It ends with the socket, and its
workers with it.
"""

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from swarmd.errors import Failure, SwarmdError
from swarmd.questions import sandbox, worker
from swarmd.questions.channel import Channel
from swarmd.questions.family import Item
from swarmd.questions.golden import verify
from swarmd.questions.proof import SEEDS, known_texts, long_texts
from swarmd.questions.regenerate import QuestionSource
from swarmd.questions.scorers import score
from swarmd.questions.selftest import verify_defaults
from swarmd.questions.zygote_process import Op, Setup
from swarmd.recent import Recent

# Items kept, 1 to 20 kB each. `score` asks for the prompts and then for a worker, so every item is wanted twice in a row.
_ITEMS_KEPT_MAX = 1024
# CPU seconds of one item. Items cost 0.03 to 3 ms, and the dearest of 30,000 cost 23 ms. A peer may choose seeds, so a seed past
# this counts as one that fails.
ITEM_CPU_S_MAX = 0.25
_WARM_TEXTS = (
    "",
    "1",
    "-2.5",
    "1/2",
    "$\\frac{1}{2}$",
    "[[1, 2], [3, 4]]",
    "['1.0']",
    "P ∧ ¬Q",
    "Monday",
    "a b, c",
)


class _TooLong(BaseException):
    """A generator computes without end. No `Exception`: upstream code may catch those and go on."""


class Zygote:
    """Regenerates items and forks workers, as the messages ask."""

    def __init__(self, channel: Channel, setup: Setup) -> None:
        self._channel, self._setup = channel, setup
        self._sources = [QuestionSource(choice) for choice in setup.datasets]
        self._items: Recent[tuple[int, int], Item | None] = Recent(_ITEMS_KEPT_MAX)

    def prepare(self) -> list[str]:
        """Self-test and warm every dataset, so that no import is left for the sandbox. Returns the golden digests.

        Raises:
            IncompatibleSwarm: a known item came out differently.
        """
        if self._setup.seal:
            verify_defaults([source.name for source in self._sources])
        goldens = verify(self._sources)
        for number, source in enumerate(self._sources):
            for seed in range(4):
                item = self._item(number, seed)
                if item is None:
                    continue
                for text in (item["answer"] or "P", *_WARM_TEXTS):
                    score(text, item, source, "plain")
        sandbox.prepare()
        gc.collect()
        gc.freeze()  # a worker's collections must not copy our pages
        return goldens

    def serve(self) -> None:
        """Answer until the service closes its end (EOFError)."""
        while True:
            (op, asked), fd = self._channel.receive()
            started = time.process_time()
            answer = self._answer(op, asked, fd)
            self._channel.send([answer, time.process_time() - started])

    def _answer(self, op: Op, asked: Any, fd: int | None) -> object:
        """What `ZygoteProcess` reads in the method of this name."""
        match op:
            case "questions":
                items = [self._item(*address) for address in asked]
                return [item and item["question"] for item in items]
            case "known":
                return [(*address, texts) for address, _, texts in self._known()]
            case "expected":
                return [self._scores(*known) for known in self._known()]
            case "fork":
                assert fd is not None
                pid = self._fork(fd, asked)
                os.close(fd)
                return pid
            case "end":
                os.kill(asked, signal.SIGKILL)
                _, status, usage = os.wait4(asked, 0)
                return status, usage.ru_utime + usage.ru_stime

    def _fork(self, fd: int, addresses: list[list[int]]) -> int:
        items = [(self._sources[dataset], self._item(dataset, seed)) for dataset, seed in addresses]
        zygote_pid, setup = os.getpid(), self._setup
        pid = os.fork()
        if pid == 0:
            worker.run(fd, items, setup.answer_format, setup.sandbox, zygote_pid, setup.seccomp)
        return pid

    def _known(self) -> list[tuple[tuple[int, int], Item, list[str]]]:
        """Address, item and our own texts for it: what `proof.prove` compares."""
        addresses = [(number, seed) for number in range(len(self._sources)) for seed in SEEDS]
        items = [(address, self._item(*address)) for address in addresses]
        known = [
            (address, item, known_texts(item, self._setup.answer_format))
            for address, item in items
            if item is not None
        ]
        return known + [(address, item, long_texts()) for address, item, _ in known[:1]]

    def _scores(self, address: tuple[int, int], item: Item, texts: list[str]) -> list[tuple[float, int]]:
        scores = [score(text, item, self._sources[address[0]], self._setup.answer_format) for text in texts]
        return [(scored.reward, scored.reason) for scored in scores]

    def _item(self, dataset: int, seed: int) -> Item | None:
        address = dataset, seed
        if address in self._items:
            self._items.move_to_end(address)
            return self._items[address]
        try:
            with _cpu_limit(ITEM_CPU_S_MAX):
                item = self._sources[dataset].item(seed)
        except (Exception, _TooLong):  # noqa: BLE001 - a generator that fails on one seed must end neither the call nor the zygote
            item = None
        self._items[address] = item
        return item


@contextlib.contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_long(signum: int, frame: object) -> None:
    raise _TooLong


def main(argv: list[str]) -> None:
    """Serve on the descriptor named in `argv` until its other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the daemon
    signal.signal(signal.SIGPROF, _too_long)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # bf prints dots while it generates
    channel = Channel(socket.socket(fileno=int(argv[0])))
    try:
        setup = Setup.of(channel.receive()[0])
        try:
            zygote = Zygote(channel, setup)
            goldens = zygote.prepare()
        except SwarmdError as error:
            channel.send([[], Failure.of(error)])
            return
        channel.send([goldens, None])
        zygote.serve()
    except EOFError:
        return


if __name__ == "__main__":
    # Under its real name, so that nothing exists twice.
    importlib.import_module("swarmd.questions.zygote").main(sys.argv[1:])
