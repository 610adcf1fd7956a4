"""Checkpoints of a node that starts: whether they fit, how often they are written, and what a crash has cost."""

import json
import math
import shutil

from swarmd.config.sections import CheckpointSettings
from swarmd.errors import DiskFull
from swarmd.files.datadir import DataDir
from swarmd.loops.pace import Pace, interval_s
from swarmd.loops.ports import Say
from swarmd.loops.report import set_aside_once
from swarmd.policy.model.folder import ResolvedModel
from swarmd.policy.plans.room import look
from swarmd.policy.state.durable import HOST_RESERVE_BYTES, RESERVE_BYTES

# Bytes a parameter: float32 weights and two float32 moments; an accelerator's narrow weights come on top. Plans with fewer moments
# need less.
_WIDE_BYTES, _NARROW_BYTES = 12, 2
# The last record of a history, with room to spare: a record is about 1.5 KB.
_TAIL_BYTES = 65_536


def checkpoint_bytes(model: ResolvedModel, device: str) -> int:
    """Bytes of a checkpoint; 0 where the model does not say how large it is."""
    return (_WIDE_BYTES + (0 if device == "cpu" else _NARROW_BYTES)) * (model.num_parameters or 0)


def begin_checkpoints(
    settings: CheckpointSettings, data_dir: DataDir, model: ResolvedModel, device: str, say: Say
) -> Pace:
    """How often this node writes checkpoints; where not in every round, the operator is told.

    Raises:
        DiskFull: they do not fit.
    """
    size_bytes = checkpoint_bytes(model, device)
    require_space(data_dir, size_bytes, settings.keep)
    pace = Pace(
        settings.every_rounds, interval_s(settings.interval_s, size_bytes, settings.gb_per_day_max * 1e9)
    )
    if pace.background:
        free = look("cpu").free_bytes
        copies = free is None or size_bytes + HOST_RESERVE_BYTES <= free
        mark, how = (
            ("✓", "in the background")
            if copies
            else ("!", "and training waits for each: the host has no memory for a copy")
        )
        say(
            f"{mark} checkpoint {size_bytes / 1e9:.1f} GB every {pace.interval_s / 60:.0f} minutes, {how}; "
            "a crash loses the rounds since the last"
        )
    return pace


def require_space(data_dir: DataDir, size_bytes: int, keep: int) -> None:
    """Refuse to start where the checkpoints do not fit: those that stay, the one to go back to, and the one being written.

    Raises:
        DiskFull: with the need and the directory.
    """
    num = max(1, keep + 2 - len(list(data_dir.checkpoints.glob("round-*"))))
    need, free = num * size_bytes + RESERVE_BYTES, shutil.disk_usage(data_dir.root).free
    if free < need:
        raise DiskFull(
            f"{data_dir.root} has {free / 2**20:.0f} MiB free, and checkpoints need {need / 2**20:.0f}",
            f"{num} of {size_bytes / 2**20:.0f} MiB (weights and optimizer moments), and "
            f"{RESERVE_BYTES / 2**20:.0f} MiB that stay free for the buffer",
            "free some space, keep fewer (checkpoint.keep), or put the state elsewhere with --data-dir",
        )


def newest_age_s(data_dir: DataDir, now_s: float) -> float:
    """Seconds since the newest checkpoint was written, by the clock of the disk; without end where there is none."""
    written = [path.stat().st_mtime for path in data_dir.checkpoints.glob("round-*")]
    return max(0.0, now_s - max(written)) if written else math.inf


def last_round(data_dir: DataDir) -> int:
    """The newest round in a node's history, 0 where there is none. Raises OSError where it cannot be read."""
    for path in (data_dir.rounds, set_aside_once(data_dir.rounds)):
        try:
            with open(path, "rb") as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
                lines = file.read().splitlines()
        except FileNotFoundError:
            continue
        for line in reversed(lines):
            try:
                return int(json.loads(line)["round"])
            except (ValueError, KeyError, TypeError):
                continue  # a line that is being written, or was cut off
    return 0
