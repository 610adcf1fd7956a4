"""What an experiment would do and cost, in text, without starting anything."""

from collections.abc import Mapping, Sequence

from swarmd.errors import NoDevice
from swarmd.experiment.arms import Arm
from swarmd.experiment.cell import Cell
from swarmd.experiment.presets import Preset
from swarmd.experiment.running.cost import cell_s, duration
from swarmd.node.children import count_gpus
from swarmd.protocol.manifest import Manifest


def describe(
    preset: Preset,
    arms: Sequence[Arm],
    cells: Sequence[Cell],
    manifest: Manifest,
    *,
    jobs: int,
    num_gpus: int | None = None,
) -> list[str]:
    trouble = device_trouble(preset, num_gpus=count_gpus() if num_gpus is None else num_gpus)
    whole_s = sum(cell_s(cell, preset) for cell in cells)
    return [
        *_head(preset, cells, manifest),
        "",
        *_arms(arms, cells[0].settings),
        "",
        "cells in their order, with the time that each is expected to take",
        *(f"  {cell.label}  {duration(cell_s(cell, preset))}" for cell in cells),
        f"ESTIMATE: {duration(whole_s / jobs)} with {jobs} cells at a time;"
        " swarmd/experiment/presets.py has the rates, those of a GPU are NOT measured",
        "",
        f"This machine: {trouble or 'has what it takes'}",
        "",
        *_choices(preset),
    ]


def device_trouble(preset: Preset, *, num_gpus: int) -> str:
    """Why this machine cannot run it; empty when nothing speaks against it."""
    if not preset.settings.get("policy.device", "auto").startswith("cuda"):
        return ""
    needed = preset.num_nodes if preset.one_device_each else 1
    if num_gpus >= needed:
        return ""
    return f"has {num_gpus} GPUs, and {preset.num_nodes} nodes need {needed}"


def require_devices(preset: Preset, *, num_gpus: int | None = None) -> None:
    """Raises NoDevice where the preset cannot be run on this machine."""
    if trouble := device_trouble(preset, num_gpus=count_gpus() if num_gpus is None else num_gpus):
        raise NoDevice(
            f"preset {preset.name} cannot be run here: this machine {trouble}",
            "each node has a GPU of its own" if preset.runner == "processes" else "all nodes share one GPU",
            "--nodes N takes fewer; --runner simulation shares one GPU; --preset laptop needs none"
            f" (asked for: {preset.runner}, {preset.num_nodes} nodes)",
        )


def _head(preset: Preset, cells: Sequence[Cell], manifest: Manifest) -> list[str]:
    names = ", ".join(dict.fromkeys(dataset.name for dataset in manifest.datasets))
    return [
        f"preset {preset.name}: {preset.text}",
        f"{len(cells)} cells of {preset.num_nodes} nodes and {preset.rounds} rounds, {preset.runner}, model {preset.model}",
        f"seeds {', '.join(map(str, sorted(preset.seeds)))}; manifest {manifest.name} ({manifest.digest.hex()[:16]}): {names}",
    ]


def _arms(arms: Sequence[Arm], settings: Mapping[str, str]) -> list[str]:
    width = max(len(arm.name) for arm in arms)
    own = {key for arm in arms for key in arm.settings}
    return [
        "arms",
        *(
            f"  {arm.name:<{width}}  {' '.join(f'{k}={v}' for k, v in arm.settings.items())}   ({arm.text})"
            for arm in arms
        ),
        "settings of all",
        *(f"  {key}={value}" for key, value in sorted(settings.items()) if key not in own),
    ]


def _choices(preset: Preset) -> list[str]:
    width = max(len(name) for name, _ in preset.choices)
    return [
        "other than in the paper, or not stated there",
        *(f"  {name:<{width}}  {value}" for name, value in preset.choices),
    ]
