"""`experiment.json`: everything that is needed to repeat an experiment, beside its cells."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TypedDict

import swarmd
from swarmd.errors import StateError
from swarmd.experiment.presets import Preset
from swarmd.files.atomic import write_atomically
from swarmd.protocol.manifest import Manifest

# Changed when cells of an older build can no longer be compared with new ones.
FORMAT = 1
_PACKAGES = ("torch", "transformers", "reasoning-gym", "numpy")


class Facts(TypedDict):
    """What all runs into one folder have in common."""

    format: int
    preset: str
    runner: str
    manifest: dict[str, str]


class Started(TypedDict):
    """One run into the folder."""

    started: str
    command: list[str]
    versions: dict[str, str]
    machine: dict[str, str | int | None]
    commit: str | None


class Provenance(Facts, Started):
    """What `experiment.json` holds: the first run, and all of them."""

    created: str
    runs: list[Started]


def write_provenance(root: Path, preset: Preset, manifest: Manifest, command: Sequence[str]) -> list[str]:
    """Write `experiment.json`, or add this run to one that is there. Returns what a person should know of the difference.

    Raises:
        StateError: the folder holds another preset's experiment, or one over other questions or of another format.
    """
    facts: Facts = {
        "format": FORMAT,
        "preset": preset.name,
        "runner": preset.runner,
        "manifest": {"name": manifest.name, "digest": manifest.digest.hex()},
    }
    run: Started = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": list(command),
        "versions": versions(),
        "machine": {"cpu_count": os.cpu_count(), "platform": platform.platform()},
        "commit": commit(),
    }
    path = root / "experiment.json"
    found = _read(path)
    if found is not None:
        _check_same(root, found, facts)
    first: Provenance = found or {**facts, "created": run["started"], **run, "runs": []}
    document: Provenance = {**first, "runs": [*first.get("runs", []), run]}
    write_atomically(path, json.dumps(document, indent=2).encode() + b"\n")
    return _changes(first, run)


def versions() -> dict[str, str]:
    """Of this package, Python, and the libraries on which figures may depend."""
    found = {"swarmd": swarmd.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name.replace("-", "_")] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name.replace("-", "_")] = "not installed"
    return found


def commit(package: Path = Path(swarmd.__file__).parent) -> str | None:
    """The git commit that the package is run from, with `-dirty` where files differ from it; None outside a checkout."""
    if not (package.parent / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(package.parent), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _read(path: Path) -> Provenance | None:
    try:
        found: Provenance = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StateError(f"cannot read {path}", str(error), "mend it, or name another folder") from None
    return found


def _check_same(root: Path, found: Provenance, facts: Facts) -> None:
    for key, value in facts.items():
        if found.get(key) != value:
            raise StateError(
                f"{root} holds another experiment: {key} {found.get(key)}, now {value}",
                "cells of one folder are compared with each other",
                "name another folder",
            )


def _changes(first: Started, run: Started) -> list[str]:
    """In what this run's versions differ from the first one's: same seeds repeat bit for bit only where nothing does."""
    before, now = first.get("versions", {}), run["versions"]
    notes = [
        f"{name} was {before.get(name)}, now {now[name]}" for name in now if before.get(name) != now[name]
    ]
    if first.get("commit") != run["commit"]:
        notes.append(f"the code was {first.get('commit')}, now {run['commit']}")
    return notes
