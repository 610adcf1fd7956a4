"""Checkpoints: complete or absent, checked before use, the last few kept; importing this loads no torch.

    checkpoints/round-00000012/   model.safetensors  optimizer.safetensors  state.json  manifest.json

The number is the round. `manifest.json` holds each file's size and SHA-256. `state.json` holds what the daemon wants
back after a restart (its round, its counters), as it gave it.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from swarmd.clients.policy import State
from swarmd.errors import StateError
from swarmd.policy.state.durable import RESERVE_BYTES, clean, discard, fresh_directory, write_file

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
MODEL_FILE, OPTIMIZER_FILE, STATE_FILE = "model.safetensors", "optimizer.safetensors", "state.json"
DIGESTS_FILE = "manifest.json"
DAMAGED = "damaged-"


@dataclass(frozen=True)
class Found:
    """A checkpoint fit for use, or none (`path` is None); `skipped` says which newer ones were not, and why."""

    path: Path | None = None
    policy_version: int = 0
    model: str = ""
    state: State = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Content:
    """What a checkpoint is made of. `state` holds what the daemon wants back; its `keep_round` names a checkpoint that stays."""

    round: int
    policy_version: int
    model: str
    weights: "Mapping[str, Tensor]"
    optimizer: "Mapping[str, Tensor]"
    state: State

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensors."""
        from swarmd.policy.state.weights import size_bytes

        return size_bytes(self.weights) + size_bytes(self.optimizer)


def save(directory: Path, content: Content, *, keep: int = 2) -> str:
    """Write a checkpoint and return its name; then drop all but the newest `keep`, and the one that has to stay.

    A full disk costs no older checkpoint.

    Raises:
        DiskFull: no space; nothing is left behind.
        StateError: the folder cannot be written.
        TypeError: the state holds something JSON cannot say.
    """
    from swarmd.policy.state.weights import write_tensors

    about = {
        "format": FORMAT,
        "policy_version": content.policy_version,
        "model": content.model,
        "state": content.state,
    }
    text = json.dumps(about, indent=1).encode()
    target = path_of(directory, content.round)
    need = content.size_bytes + len(text)
    with fresh_directory(
        target, f"checkpoint {target.name}", size_bytes=need, reserve_bytes=RESERVE_BYTES
    ) as folder:
        write_file(folder / STATE_FILE, text)
        digests = {
            STATE_FILE: hashlib.sha256(text).hexdigest(),
            MODEL_FILE: write_tensors(folder / MODEL_FILE, content.weights),
            OPTIMIZER_FILE: write_tensors(folder / OPTIMIZER_FILE, content.optimizer),
        }
        files = {n: {"size_bytes": (folder / n).stat().st_size, "sha256": d} for n, d in digests.items()}
        write_file(folder / DIGESTS_FILE, json.dumps({"format": FORMAT, "files": files}, indent=1).encode())
    also = content.state.get("keep_round")
    kept = None if also is None else path_of(directory, also)
    spare = [old for old in _rounds(directory)[keep:] if old != kept]
    for old in [*spare, *directory.glob(f"{DAMAGED}*")]:
        discard(old)
    return target.name


def path_of(directory: Path, round: int) -> Path:
    """The place of a round's checkpoint."""
    return directory / f"round-{round:08d}"


def of_round(directory: Path, round: int) -> Found:
    """The checkpoint of one round, checked.

    Raises:
        StateError: it is not there, or damaged.
    """
    path = path_of(directory, round)
    if reason := damage(path):
        raise StateError(f"the checkpoint of round {round} cannot be used", reason)
    return _read(path)


def newest_valid(directory: Path) -> Found:
    """The newest checkpoint whose every file has its digest.

    Raises:
        StateError: the newest one was written by a later version of this program; falling back would lose its work.
    """
    skipped = []
    for path in _rounds(directory):
        if reason := damage(path):
            skipped.append(f"{path.name}: {reason}")
        else:
            return replace(_read(path), skipped=tuple(skipped))
    return Found(skipped=tuple(skipped))


def damage(path: Path, *, contents: bool = True) -> str:
    """Why a checkpoint cannot be used; empty when it can.

    With `contents` every file is hashed (seconds per gigabyte); otherwise the small files alone, and sizes are compared.

    Raises:
        StateError: it was written by a later version of this program.
    """
    try:
        digests = json.loads((path / DIGESTS_FILE).read_bytes())
        _refuse_newer(digests["format"], path)
        for name in (MODEL_FILE, OPTIMIZER_FILE, STATE_FILE):
            entry, file = digests["files"][name], path / name
            size = file.stat().st_size
            if size != entry["size_bytes"]:
                return f"{name} has {size} bytes, not {entry['size_bytes']}"
            if contents or name == STATE_FILE:
                with open(file, "rb") as source:
                    digest = hashlib.file_digest(source, "sha256").hexdigest()
                if digest != entry["sha256"]:
                    return f"{name} is not what was written (SHA-256 differs)"
        _read(path)
    except OSError as error:
        return f"{Path(error.filename or path).name}: {error.strerror}"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return f"{DIGESTS_FILE} or {STATE_FILE} cannot be read ({type(error).__name__})"
    return ""


def recover(directory: Path) -> Found:
    """At start, before anything else: undo what a crash left, set damaged checkpoints aside, and return the newest good one.

    A damaged one is renamed, not deleted, so that its number is free and someone can look; the next good save removes it.

    Raises:
        StateError: the newest one was written by a later version of this program; or there are some and none is good, which must
            not end in a silent start from nothing.
    """
    done = clean(directory)
    found = newest_valid(directory)
    if found.path is None and found.skipped:
        raise StateError(
            f"no checkpoint in {directory} can be used",
            "; ".join(found.skipped),
            "restore one from a copy, or move the folder away to train from the start",
        )
    for line in found.skipped:
        path = directory / line.partition(":")[0]
        aside = path.with_name(DAMAGED + path.name)
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    return replace(found, skipped=(*found.skipped, *done))


def read_state(directory: Path) -> State | None:
    """The daemon's state of the newest checkpoint that looks whole, without hashing the large files; None when there is none.

    For looking. A restart takes the state that the policy process returns, which has checked everything.

    Raises:
        StateError: it was written by a later version of this program.
    """
    for path in _rounds(directory):
        if not damage(path, contents=False):
            return _read(path).state
    return None


def read_optimizer(path: Path) -> "dict[str, Tensor]":
    """A checkpoint's optimizer tensors, on the CPU. Raises StateError when the file cannot be read."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path / OPTIMIZER_FILE))
    except (OSError, SafetensorError) as error:
        raise StateError(f"cannot read {path / OPTIMIZER_FILE}", str(error)) from error


def _rounds(directory: Path) -> list[Path]:
    """All checkpoints, newest first."""
    return sorted((p for p in directory.glob("round-*") if p.is_dir()), key=lambda p: p.name, reverse=True)


def _read(path: Path) -> Found:
    """A checkpoint, by its `state.json`."""
    content = json.loads((path / STATE_FILE).read_bytes())
    _refuse_newer(content["format"], path)
    return Found(path, content["policy_version"], content["model"], content["state"])


def _refuse_newer(found: int, path: Path) -> None:
    if found > FORMAT:
        raise StateError(
            f"checkpoint {path} has format {found}, this program reads up to {FORMAT}",
            "a later version of swarmd wrote it",
            "upgrade swarmd, or move the checkpoints away",
        )
