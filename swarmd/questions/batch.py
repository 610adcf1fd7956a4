"""Score one batch with as many workers as it takes: one, unless a text kills it, and none after the deadline.

A worker that dies costs the item it was at; a new worker scores the rest of the batch. A worker that holds its place for too long
is killed, and the rest of the batch is not scored.
"""

import contextlib
import math
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmd.clients.scorer import ScoreItem
from swarmd.errors import LocalError
from swarmd.questions.channel import Channel
from swarmd.questions.extract import fits
from swarmd.questions.hold import Hold
from swarmd.questions.sandbox import Step
from swarmd.questions.scorers import Reason, Score
from swarmd.questions.worker import RECORD
from swarmd.questions.zygote_process import ZygoteDied, ZygoteProcess

# Zygotes that one batch may lose. A second death is no accident.
_ZYGOTES_MAX = 2
_CODES = {int(reason): reason for reason in Reason}
_BY_SIGNAL = {int(signal.SIGSYS): Reason.FORBIDDEN_SYSCALL, int(signal.SIGXCPU): Reason.CPU_LIMIT}


@dataclass
class ScoredBatch:
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


def score_batch(
    zygote: ZygoteProcess, items: Sequence[ScoreItem], ends: float, held_s_max: float = math.inf
) -> ScoredBatch:
    """Score all completions of `items` until `ends` (`time.monotonic()`); with no items, only try a worker.

    All workers of the batch together hold their place for `held_s_max` seconds at most (`hold.py`).
    """
    batch = ScoredBatch()
    num_zygotes_lost = 0
    while True:
        number = zygote.num_starts
        try:
            reason = _run_worker(zygote, items, batch, ends, held_s_max)
        except ZygoteDied:
            num_zygotes_lost += 1
            reason = None
            try:
                zygote.replace(number)
            except LocalError:
                num_zygotes_lost = _ZYGOTES_MAX
            if num_zygotes_lost >= _ZYGOTES_MAX:
                batch.give_up(items, Reason.ZYGOTE_DIED)
        if reason is Reason.DEADLINE:
            batch.give_up(items, reason)
        elif reason is not None:
            batch.give_up(items, reason, num_items=1)
        if len(batch.scores_RG) == len(items):
            return batch


def _run_worker(
    zygote: ZygoteProcess, items: Sequence[ScoreItem], batch: ScoredBatch, ends: float, held_s_max: float
) -> Reason | None:
    """Let one worker score what is left. Returns why it stopped before the end; None where it did not."""
    todo = items[len(batch.scores_RG) :]
    if time.monotonic() >= ends or batch.held_s > held_s_max:
        return Reason.DEADLINE
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    try:
        with theirs:
            request = {"op": "fork", "items": [(item.dataset, item.seed) for item in todo]}
            forked = zygote.ask(request, theirs.fileno())
        batch.cpu_s += forked["cpu_s"]
        hold = Hold(forked["pid"], ends, held_s_max - batch.held_s)
        reason = _collect(channel, todo, batch, hold, ends)
        status = _end(zygote, forked, batch, hold.held_s())
    finally:
        channel.close()
    if reason is not Reason.WORKER_DIED:
        return reason
    return _BY_SIGNAL.get(os.WTERMSIG(status), reason) if os.WIFSIGNALED(status) else reason


def _end(zygote: ZygoteProcess, forked: dict[str, Any], batch: ScoredBatch, held_s: float) -> int:
    """Kill the worker, add its cost to the batch, and return its exit status."""
    worker_cpu_s = 0.0  # of a zygote that died with its workers nobody can tell
    try:
        ended = zygote.ask({"op": "end", "pid": forked["pid"]}, of=forked["zygote"])
        worker_cpu_s = ended["worker_cpu_s"]
        batch.cpu_s += ended["cpu_s"]
        return int(ended["status"])
    finally:
        batch.held_s += max(held_s, worker_cpu_s)


def _collect(
    channel: Channel, todo: Sequence[ScoreItem], batch: ScoredBatch, hold: Hold, ends: float
) -> Reason | None:
    try:
        batch.steps = Step(channel.read_some(1, ends)[0])
        channel.send([[_admitted(text) for text in item.texts] for item in todo], ends=ends)
        for item in todo:
            scores = _read_scores(channel, len(item.texts), hold)
            if scores is None:
                return Reason.FORGED_REPLY
            batch.scores_RG.append(scores)
    except EOFError:
        return Reason.WORKER_DIED
    except TimeoutError:
        return Reason.DEADLINE
    return None


def _admitted(text: str) -> str | None:
    """The text as a worker sees it; None stands for a text that is oversize and not sent."""
    return text if fits(text) else None


def _read_scores(channel: Channel, num_texts: int, hold: Hold) -> list[Score] | None:
    """The records of one item; None when no worker of ours would have written them."""
    data = b""
    while len(data) < num_texts * RECORD.size:
        until = hold.until()
        with contextlib.suppress(TimeoutError):  # time for another look at the worker
            data += channel.read_some(num_texts * RECORD.size - len(data), until)
    scores = []
    for code, reward in RECORD.iter_unpack(data):
        scored = code == Reason.SCORED
        if code not in _CODES or not math.isfinite(reward) or not 0.0 <= reward <= float(scored):
            return None
        scores.append(Score(reward, _CODES[code]))
    return scores
