"""Score the items of one call with as many workers as it takes: one, unless a text kills it, and none after the deadline.

A worker that dies costs the item it was at; a new worker scores the rest. A worker that holds its place for too long is killed,
and the rest is not scored.
"""

import contextlib
import math
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from swarmd.clients.scorer import ScoreItem
from swarmd.errors import LocalError
from swarmd.questions.channel import Channel
from swarmd.questions.extract import fits
from swarmd.questions.hold import Hold
from swarmd.questions.sandbox import Step
from swarmd.questions.scorers import Reason, Score
from swarmd.questions.worker import SCORE
from swarmd.questions.zygote_process import Forked, ZygoteDied, ZygoteProcess

# Zygotes that one call may lose. A second death is no accident.
_ZYGOTES_MAX = 2
_CODES = {int(reason): reason for reason in Reason}
_BY_SIGNAL = {int(signal.SIGSYS): Reason.FORBIDDEN_SYSCALL, int(signal.SIGXCPU): Reason.CPU_LIMIT}


@dataclass
class Scored:
    """Scores so far, item by item in order, the lockdown steps of the last worker, and what the workers cost.

    `cpu_s` is what the zygote computed for them; `held_s` how long they held their place, computing or idle.
    """

    scores_RG: list[list[Score]] = field(default_factory=list)
    steps: Step = field(default=Step(0))
    cpu_s: float = 0.0
    held_s: float = 0.0

    def give_up(self, items: Sequence[ScoreItem], reason: Reason, num_items: int | None = None) -> None:
        """Give the next `num_items`, or all that are left, 0 with this reason."""
        for item in items[len(self.scores_RG) :][:num_items]:
            self.scores_RG.append([Score(0.0, reason)] * len(item.texts))


def score_items(
    zygote: ZygoteProcess, items: Sequence[ScoreItem], ends: float, held_s_max: float = math.inf
) -> Scored:
    """Score all completions of `items` until `ends` (`time.monotonic()`); with no items, only try a worker.

    All workers of the call together hold their place for `held_s_max` seconds at most (`hold.py`).
    """
    scored = Scored()
    num_zygotes_lost = 0
    while True:
        number = zygote.num_starts
        try:
            reason = _run_worker(zygote, items, scored, ends, held_s_max)
        except ZygoteDied:
            num_zygotes_lost += 1
            reason = None
            try:
                zygote.replace(number)
            except LocalError:
                num_zygotes_lost = _ZYGOTES_MAX
            if num_zygotes_lost >= _ZYGOTES_MAX:
                scored.give_up(items, Reason.ZYGOTE_DIED)
        if reason is Reason.DEADLINE:
            scored.give_up(items, reason)
        elif reason is not None:
            scored.give_up(items, reason, num_items=1)
        if len(scored.scores_RG) == len(items):
            return scored


def _run_worker(
    zygote: ZygoteProcess, items: Sequence[ScoreItem], scored: Scored, ends: float, held_s_max: float
) -> Reason | None:
    """Let one worker score what is left. Returns why it stopped before the end; None where it did not."""
    todo = items[len(scored.scores_RG) :]
    if time.monotonic() >= ends or scored.held_s > held_s_max:
        return Reason.DEADLINE
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    try:
        with theirs:
            forked = zygote.fork(todo, theirs.fileno())
        scored.cpu_s += forked.cpu_s
        hold = Hold(forked.pid, ends, held_s_max - scored.held_s)
        reason = _collect(channel, todo, scored, hold, ends)
        status = _end(zygote, forked, scored, hold.held_s())
    finally:
        channel.close()
    if reason is not Reason.WORKER_DIED:
        return reason
    return _BY_SIGNAL.get(os.WTERMSIG(status), reason) if os.WIFSIGNALED(status) else reason


def _end(zygote: ZygoteProcess, forked: Forked, scored: Scored, held_s: float) -> int:
    """Kill the worker, add its cost, and return its exit status."""
    worker_cpu_s = 0.0  # of a zygote that died with its workers nobody can tell
    try:
        ended = zygote.end(forked)
        worker_cpu_s = ended.worker_cpu_s
        scored.cpu_s += ended.cpu_s
        return ended.status
    finally:
        scored.held_s += max(held_s, worker_cpu_s)


def _collect(
    channel: Channel, todo: Sequence[ScoreItem], scored: Scored, hold: Hold, ends: float
) -> Reason | None:
    try:
        scored.steps = Step(channel.read_some(1, ends)[0])
        channel.send([[_admitted(text) for text in item.texts] for item in todo], ends=ends)
        for item in todo:
            scores = _read_scores(channel, len(item.texts), hold)
            if scores is None:
                return Reason.FORGED_REPLY
            scored.scores_RG.append(scores)
    except EOFError:
        return Reason.WORKER_DIED
    except TimeoutError:
        return Reason.DEADLINE
    return None


def _admitted(text: str) -> str | None:
    """The text as a worker sees it; None stands for a text that is oversize and not sent."""
    return text if fits(text) else None


def _read_scores(channel: Channel, num_texts: int, hold: Hold) -> list[Score] | None:
    """The scores of one item; None when no worker of ours would have written them."""
    data = b""
    while len(data) < num_texts * SCORE.size:
        until = hold.until()
        with contextlib.suppress(TimeoutError):  # time for another look at the worker
            data += channel.read_some(num_texts * SCORE.size - len(data), until)
    scores = []
    for code, reward in SCORE.iter_unpack(data):
        scored = code == Reason.SCORED
        if code not in _CODES or not math.isfinite(reward) or not 0.0 <= reward <= float(scored):
            return None
        scores.append(Score(reward, _CODES[code]))
    return scores
