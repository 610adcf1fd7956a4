"""The swarm that is attacked: the embedded one and, beside it, the datasets whose scorers upstream ran code or hung."""

import json
from pathlib import Path
from typing import Any

from swarmd.protocol.manifest import Manifest, load_manifest
from swarmd.questions.seal import goldens_of, seal_toml

# Of the paper's nine, and two more with scorers of our own. They have a small weight: the honest nodes do not ask them at all.
EXPOSED = (
    "binary_matrix",
    "propositional_logic",
    "calendar_arithmetic",
    "decimal_arithmetic",
    "base_conversion",
    "arc_1d",
)
WEIGHT = 0.01


def write_manifest(path: Path) -> Manifest:
    """Write the sealed manifest as TOML, and read it back."""
    tiny = load_manifest("tiny")
    known = {dataset.name for dataset in tiny.datasets}
    lines = [
        f"version = {tiny.version}",
        'name = "attacked"',
        f"prompt_template = {json.dumps(tiny.prompt_template)}",
        f"answer_format = {json.dumps(tiny.answer_format)}",
        f"scorer_version = {tiny.scorer_version}",
        f"epoch = {tiny.epoch}",
        f"held_out_per_mille = {tiny.held_out_per_mille}",
    ]
    for dataset in tiny.datasets:
        lines += _dataset(dataset.name, dict(dataset.params), dataset.weight, dataset.reward)
    for name in EXPOSED:
        if name not in known:
            lines += _dataset(name, {}, WEIGHT, "upstream")
    draft = ("\n".join(lines) + "\n").encode()
    path.write_bytes(seal_toml(draft, goldens_of(Manifest.from_toml(draft)), str(path)))
    return load_manifest(path)


def honest_datasets() -> str:
    """What the honest nodes ask, for `--tasks`: those that the tiny policy can learn."""
    return ",".join(dataset.name for dataset in load_manifest("tiny").datasets)


def _dataset(name: str, params: dict[str, Any], weight: float, reward: str) -> list[str]:
    pairs = ", ".join(f"{key} = {json.dumps(_plain(value))}" for key, value in params.items())
    return [
        "",
        "[[datasets]]",
        f'name = "{name}"',
        f"params = {{ {pairs} }}",
        f"weight = {weight}",
        f'reward = "{reward}"',
    ]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
