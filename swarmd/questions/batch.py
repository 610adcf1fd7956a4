"""Score one batch with as many workers as it takes: one, unless a text kills it, and none after the deadline.

A worker that dies costs the item it was at, not the batch: the rest goes to a new worker.
"""

import math
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from swarmd.errors import LocalError
from swarmd.questions.channel import Channel
from swarmd.questions.extract import fits
from swarmd.questions.sandbox import Step
from swarmd.questions.scorers import Reason, Score
from swarmd.questions.worker import RECORD
from swarmd.questions.zygote_process import ZygoteDied, ZygoteProcess

# A zygote that dies twice in one batch is not dying of an accident.
_ZYGOTES_MAX = 2
_CODES = {int(reason): reason for reason in Reason}
_BY_SIGNAL = {int(signal.SIGSYS): Reason.FORBIDDEN_SYSCALL, int(signal.SIGXCPU): Reason.CPU_LIMIT}


@dataclass(frozen=True)
class ScoreItem:
    """One question's address and the completions to score for it."""

    dataset: int
    seed: int
    texts: tuple[str, ...]


@dataclass
class ScoredBatch:
    """Scores so far, item by item in order, and the lockdown steps of the last worker."""

    scores_RG: list[list[Score]] = field(default_factory=list)
    steps: Step = field(default=Step(0))

    def give_up(self, items: Sequence[ScoreItem], reason: Reason, num_items: int | None = None) -> None:
        """0 with this reason for the next items, or for all that are left."""
        for item in items[len(self.scores_RG) :][:num_items]:
            self.scores_RG.append([Score(0.0, reason)] * len(item.texts))


def score_batch(zygote: ZygoteProcess, items: Sequence[ScoreItem], ends: float) -> ScoredBatch:
    """Score all completions of `items` until `ends` (`time.monotonic()`); with no items, only try a worker."""
    batch = ScoredBatch()
    num_zygotes_lost = 0
    while True:
        try:
            reason = _run_worker(zygote, items, batch, ends)
        except ZygoteDied:
            num_zygotes_lost += 1
            reason = None
            try:
                zygote.start()
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
    zygote: ZygoteProcess, items: Sequence[ScoreItem], batch: ScoredBatch, ends: float
) -> Reason | None:
    """Let one worker score what is left; why it stopped before the end, or None when it did not."""
    todo = items[len(batch.scores_RG) :]
    if time.monotonic() >= ends:
        return Reason.DEADLINE
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    try:
        with theirs:
            request = {"op": "fork", "items": [(item.dataset, item.seed) for item in todo]}
            pid = zygote.ask(request, theirs.fileno())["pid"]
        reason = _collect(channel, todo, batch, ends)
        status = zygote.ask({"op": "end", "pid": pid})["status"]
    finally:
        channel.close()
    if reason is not Reason.WORKER_DIED:
        return reason
    return _BY_SIGNAL.get(os.WTERMSIG(status), reason) if os.WIFSIGNALED(status) else reason


def _collect(channel: Channel, todo: Sequence[ScoreItem], batch: ScoredBatch, ends: float) -> Reason | None:
    try:
        batch.steps = Step(channel.read_some(1, ends)[0])
        channel.send([[_admitted(text) for text in item.texts] for item in todo], ends=ends)
        for item in todo:
            scores = _read_scores(channel, len(item.texts), ends)
            if scores is None:
                return Reason.FORGED_REPLY
            batch.scores_RG.append(scores)
    except EOFError:
        return Reason.WORKER_DIED
    except TimeoutError:
        return Reason.DEADLINE
    return None


def _admitted(text: str) -> str | None:
    """What a worker gets to see; None is scored as oversize without being sent."""
    return text if fits(text) else None


def _read_scores(channel: Channel, num_texts: int, ends: float) -> list[Score] | None:
    """The records of one item; None when no worker of ours would have written them."""
    data = b""
    while len(data) < num_texts * RECORD.size:
        data += channel.read_some(num_texts * RECORD.size - len(data), ends)
    scores = []
    for code, reward in RECORD.iter_unpack(data):
        scored = code == Reason.SCORED
        if code not in _CODES or not math.isfinite(reward) or not 0.0 <= reward <= float(scored):
            return None
        scores.append(Score(reward, _CODES[code]))
    return scores
