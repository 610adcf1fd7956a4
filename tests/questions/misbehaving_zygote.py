"""A zygote whose scorer does what the completion says: the worst case, a text that took over its worker."""

import os
import socket
import sys

from swarmd.questions import worker, zygote
from swarmd.questions.extract import AnswerFormat
from swarmd.questions.regenerate import Item, QuestionSource
from swarmd.questions.scorers import Score


def obey(text: str, item: Item, source: QuestionSource, answer_format: AnswerFormat) -> Score:
    """Misbehave as told; 1.0 for anything else, and for a crime that nobody stopped."""
    act, _, argument = text.partition(" ")
    if act == "exit":
        os._exit(0)
    elif act == "socket":
        socket.socket()
    elif act == "fork":
        os.fork()
    elif act == "allocate":
        return Score(float(len(bytearray(1 << 30)) == 0))
    elif act == "read":
        with open(argument) as file:
            return Score(float(bool(file.read())))
    elif act == "forge":
        for fd in range(3, 64):
            _write(fd, worker.RECORD.pack(0, float(argument)) * 8)
    elif act == "hang":
        if argument:
            with open(argument, "w") as fifo:
                fifo.write(str(os.getpid()))
        while True:
            pass
    elif act == "murder":
        os.kill(os.getppid(), 9)
        while True:
            pass
    return Score(1.0)


def _write(fd: int, data: bytes) -> None:
    try:
        os.write(fd, data)
    except OSError:
        return


if __name__ == "__main__":
    worker.score = obey
    zygote.main(sys.argv[1:])
