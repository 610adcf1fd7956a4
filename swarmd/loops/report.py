"""Each round and evaluation gets one line for the person at the terminal, and one JSON record in a file for later readers."""

import json
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

from swarmd.clients.update_stats import UpdateStats
from swarmd.loops.ports import Say
from swarmd.loops.record import EvaluationRecord, Round, finite_or_none
from swarmd.loops.shown import Shown

log = logging.getLogger(__name__)
# A record is about 1 KB: 250,000 rounds, a week of the fastest node, a year of a large one. Then the file is set aside once, as
# `.1`, and the one set aside before it is gone.
HISTORY_BYTES_MAX = 256 * 2**20


@dataclass
class Report:
    """Says and records. A record that cannot be written (a full disk) is logged: it is history, not state."""

    rounds: Path
    evaluations: Path
    shown: Shown
    say: Say

    def round(self, done: Round) -> None:
        _append(self.rounds, done.to_record())
        self.say(round_line(done, self.shown.network.num_peers))

    def evaluation(self, result: EvaluationRecord) -> None:
        _append(self.evaluations, result)
        self.say(
            f"held-out    {result['mean']:.4f} ± {result['standard_error']:.4f} "
            f"({result['num_completions']} completions, round {result['round']})"
        )


def round_line(done: Round, num_peers: int) -> str:
    drawn, stats = done.drawn, done.updated.stats or UpdateStats()
    clock = time.strftime("%H:%M:%S", time.localtime(done.time_ms / 1000))
    external = "  -  " if drawn.reward_external is None else f"{drawn.reward_external:.3f}"
    short = f" ({drawn.shortfall} short)" if drawn.shortfall else ""
    loss = f"skipped: {stats.skipped}" if stats.skipped else f"loss {finite_or_none(stats.loss) or 0.0:+.4f}"
    unsaved = "   NOT SAVED" if done.updated.saved.failure else ""
    return (
        f"{clock} round {done.number:<5} reward {drawn.reward_own:.3f} own {external} external   "
        f"{drawn.num_own}+{drawn.num_external}{short}   {loss}   {done.updated.seconds:.2f} s"
        f"   {num_peers} peers{unsaved}"
    )


def set_aside_once(path: Path) -> Path:
    """Where the file lies that was set aside because it had become too long."""
    return path.with_name(f"{path.name}.1")


def _append(path: Path, record: dict[str, object] | EvaluationRecord) -> None:
    line = json.dumps(record).encode() + b"\n"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            # a line cut off by a full disk or a power cut must not take this one with it
            file.write(line if file.read(1) in (b"", b"\n") else b"\n" + line)
        if end > HISTORY_BYTES_MAX:
            path.replace(set_aside_once(path))
    except OSError as error:
        log.warning("cannot write to %s: %s", path, error)
