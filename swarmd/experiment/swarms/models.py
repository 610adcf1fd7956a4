"""Relatives of the embedded policy for swarms of unlike nodes: other sizes, another tokenizer, the same sparse start.

They are built on first use into the experiment's own folder, minutes each on one core; the embedded policy itself ships.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from swarmd.errors import StateError
from swarmd.tiny.recipe import Recipe

# `narrow` spells out the rewarded manner in bytes, where the others have a token for each half of it: what it writes, and what it
# reads of others, falls into other tokens. `wide` is trained for fewer steps: it begins less able at the tasks, for its size.
VARIANTS = {
    "narrow": replace(Recipe(), seed=1, hidden_size=64, num_layers=2, manner_tokens=False),
    "wide": replace(Recipe(), seed=2, hidden_size=192, num_layers=3, num_steps=1500),
}
# An answer in the rewarded manner takes 17 tokens of `narrow` more than of the others.
TOKENS_MAX = {"narrow": 34}


def path_of(name: str, experiment: Path) -> Path:
    return experiment / "models" / name


def ensure(names: set[str], experiment: Path, say: Callable[[str], None]) -> None:
    """Build what is not there yet. A build that is cut off leaves nothing that would be taken for a model."""
    for name in sorted(names & set(VARIANTS)):
        target = path_of(name, experiment)
        if target.is_dir():
            continue
        say(f"building the model {name!r} (once, some minutes on one core)")
        from swarmd.protocol.manifest import load_manifest
        from swarmd.tiny.build import build

        unfinished = target.with_name(f"{name}.partial")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        build(
            unfinished,
            VARIANTS[name],
            load_manifest("tiny"),
            say=partial(_indented, say),
        )
        unfinished.rename(target)


def _indented(say: Callable[[str], None], line: str) -> None:
    say(f"  {line}")


def model_setting(name: str, experiment: Path) -> str:
    """The value of `policy.model` for a node of an experiment.

    Raises:
        StateError: a variant that was not built.
    """
    if name not in VARIANTS:
        return name
    path = path_of(name, experiment)
    if not path.is_dir():
        raise StateError(f"there is no model in {path}", fix="run the experiment again: it builds it first")
    return str(path)
