"""The life of a forked worker: lock down, read the completions, write the score of each, be killed.

The worker gets the regenerated items with the fork and keeps nothing but its socket. It answers with one byte of lockdown steps and
then 9 bytes a completion, in order. The reader parses nothing, and knows how far the worker got.
"""

import os
import struct
from collections.abc import Sequence

from swarmd.questions.channel import read_message, write_all
from swarmd.questions.extract import AnswerFormat
from swarmd.questions.family import Item
from swarmd.questions.regenerate import QuestionSource
from swarmd.questions.sandbox import SandboxMode, lockdown
from swarmd.questions.scorers import Reason, Score, score

SCORE = struct.Struct("<Bd")
"""Reason and reward of one completion."""

_FD_MAX = 256


def run(
    fd: int,
    items: Sequence[tuple[QuestionSource, Item | None]],
    answer_format: AnswerFormat,
    mode: SandboxMode,
    zygote_pid: int,
    with_seccomp: bool,
) -> None:
    """Serve one call on `fd` and never return; `items` with None could not be regenerated."""
    try:
        _keep_only(fd)
        write_all(fd, bytes([lockdown(mode, zygote_pid, with_seccomp=with_seccomp)]))
        texts_RG = read_message(fd)
        for (source, item), texts in zip(items, texts_RG, strict=True):
            write_all(fd, b"".join(_encoded(text, item, source, answer_format) for text in texts))
        read_message(
            fd
        )  # nothing comes: wait to be killed, so that the end of a worker always has the same shape
    finally:
        os._exit(0)


def _encoded(
    text: str | None, item: Item | None, source: QuestionSource, answer_format: AnswerFormat
) -> bytes:
    if item is None:
        result = Score(0.0, Reason.NOT_REGENERATED)
    elif text is None:  # the service did not send it
        result = Score(0.0, Reason.OVERSIZE)
    else:
        result = score(text, item, source, answer_format)
    return SCORE.pack(result.reason, result.reward)


def _keep_only(fd: int) -> None:
    """Close everything but `fd`; 0, 1 and 2 become /dev/null: a text must not reach the operator's terminal as a traceback."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, fd)
    os.closerange(fd + 1, _FD_MAX)
