"""`experiment.json`: everything that is needed to repeat an experiment, beside its cells."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import swarmd
from swarmd.errors import StateError
from swarmd.experiment.presets import Preset
from swarmd.files.atomic import write_atomically
from swarmd.protocol.manifest import Manifest

# Changed when cells of an older build can no longer be compared with new ones.
FORMAT = 1
_PACKAGES = ("torch", "transformers", "reasoning-gym", "numpy")


def record(root: Path, preset: Preset, manifest: Manifest, command: Sequence[str]) -> list[str]:
    """Write `experiment.json`, or add this run to one that is there. Returns what a person should know of the difference.

    Raises:
        StateError: the folder holds another preset's experiment, or one over other questions or of another format.
    """
    facts = {
        "format": FORMAT,
        "preset": preset.name,
        "runner": preset.runner,
        "manifest": {"name": manifest.name, "digest": manifest.digest.hex()},
    }
    run = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": list(command),
        "versions": versions(),
        "machine": {"cpu_count": os.cpu_count(), "platform": platform.platform()},
        "commit": commit(),
    }
    path = root / "experiment.json"
    found = _read(path)
    if found is None:
        document = {**facts, "created": run["started"], **run, "runs": [run]}
        notes = []
    else:
        _check_same(root, found, facts)
        document = {**found, "runs": [*found.get("runs", []), run]}
        notes = _changes(found, run)
    write_atomically(path, json.dumps(document, indent=2).encode() + b"\n")
    return notes


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


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StateError(f"cannot read {path}", str(error), "mend it, or name another folder") from None
    return document


def _check_same(root: Path, found: dict[str, Any], facts: dict[str, Any]) -> None:
    for key, value in facts.items():
        if found.get(key) != value:
            raise StateError(
                f"{root} holds another experiment: {key} {found.get(key)}, now {value}",
                "cells of one folder are compared with each other",
                "name another folder",
            )


def _changes(found: dict[str, Any], run: dict[str, Any]) -> list[str]:
    """In what this run's versions differ from the first one's: same seeds repeat bit for bit only where nothing does."""
    before, now = found.get("versions", {}), run["versions"]
    notes = [
        f"{name} was {before.get(name)}, now {now[name]}" for name in now if before.get(name) != now[name]
    ]
    if found.get("commit") != run["commit"]:
        notes.append(f"the code was {found.get('commit')}, now {run['commit']}")
    return notes
