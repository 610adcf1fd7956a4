"""A zygote whose scorer does what the completion says: the worst case, a text that took over its worker.

`serve` can take a step of the lockdown away, as a kernel without it would. Nothing in swarmd can: it needs another module to be
started as the zygote, which only a test names.
"""

import os
import socket
import sys
import time
from collections.abc import Sequence

from swarmd.questions import landlock, seccomp, worker, zygote
from swarmd.questions.extract import AnswerFormat
from swarmd.questions.family import Item
from swarmd.questions.regenerate import QuestionSource
from swarmd.questions.scorers import Score
from swarmd.questions.scorers import score as genuine

_NOBODY = 65534
_strange = ""


def serve(
    *,
    with_landlock: bool = True,
    with_seccomp: bool = True,
    as_root: bool = True,
    unlisted: Sequence[str] = (),
    strange: str = "",
) -> None:
    """Run the zygote, with the lockdown's steps that this machine shall have.

    `unlisted` system calls end a worker, as one of another libc would that nobody had thought of; scoring dataset `strange` makes
    a call that is on no list.
    """
    global _strange
    _strange = strange
    for call in unlisted:
        del seccomp._NUMBERS[call]
    worker.score = obey
    if not with_landlock:
        landlock.deny_all = lambda libc: False
    if not with_seccomp:
        seccomp.filter_program = lambda machine: None
    if not as_root:
        zygote.Zygote.serve = _as_nobody(zygote.Zygote.serve)  # type: ignore[method-assign]
    zygote.main(sys.argv[1:])


def obey(text: str, item: Item, source: QuestionSource, answer_format: AnswerFormat) -> Score:
    """Misbehave as told; an answer in tags is scored as ever; 1.0 for anything else, and for a crime that nobody stopped."""
    if source.name == _strange:
        os.getppid()
    if "<answer>" in text:
        return genuine(text, item, source, answer_format)
    act, _, argument = text.partition(" ")
    if act == "exit":
        os._exit(0)
    elif act == "socket":
        socket.socket()
    elif act == "connect":
        socket.socket().connect(("127.0.0.1", int(argument)))
    elif act == "fork":
        if os.fork() == 0:
            os._exit(0)
    elif act == "allocate":
        return Score(float(len(bytearray(1 << 30)) == 0))
    elif act == "read":
        with open(argument) as file:
            return Score(float(bool(file.read())))
    elif act == "write":
        with open(argument, "w") as file:
            file.write("escaped")
    elif act == "root":
        return Score(float(0 in (os.getuid(), os.geteuid(), os.getgid())))
    elif act == "forge":
        for fd in range(3, 64):
            _write(fd, worker.SCORE.pack(0, float(argument)) * 8)
    elif act == "hang":
        if argument:
            with open(argument, "w") as fifo:
                fifo.write(str(os.getpid()))
        while True:
            pass
    elif act == "sleep":
        time.sleep(float(argument))
        os._exit(0)
    elif act == "murder":
        os.kill(os.getppid(), 9)
        while True:
            pass
    return Score(1.0)


def _as_nobody(run):  # type: ignore[no-untyped-def]
    def as_nobody(self):  # type: ignore[no-untyped-def]
        """Nobody from here on: everything is imported, and an ordinary user may not be able to read the interpreter."""
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
        run(self)

    return as_nobody


def _write(fd: int, data: bytes) -> None:
    try:
        os.write(fd, data)
    except OSError:
        return


if __name__ == "__main__":
    serve()
