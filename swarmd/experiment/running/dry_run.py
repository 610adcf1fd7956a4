"""What an experiment would do and cost, in text, without starting anything."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from swarmd.errors import NoDevice
from swarmd.experiment.arms import Arm
from swarmd.experiment.cell import Cell
from swarmd.experiment.presets import Preset
from swarmd.experiment.running.by_hand import start_commands
from swarmd.experiment.running.cost import Cost, amount, cell_cost, duration, total
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
    costs = [cell_cost(cell, preset) for cell in cells]
    return [
        *_head(preset, cells, manifest),
        "",
        *_arms(arms, cells[0].settings),
        "",
        *_cells(cells, costs),
        "",
        *_cost(preset, total(costs), jobs),
        "",
        f"This machine: {trouble or 'has what it takes'}",
        "",
        *_choices(preset),
        *(_by_hand(cells[0]) if preset.runner == "processes" else []),
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
            f"--dry-run shows its cost, and how to start its nodes on several machines; --nodes N takes fewer; --runner simulation"
            f" shares one GPU; --preset laptop needs none (asked for: {preset.runner}, {preset.num_nodes} nodes)",
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


def _cells(cells: Sequence[Cell], costs: Sequence[Cost]) -> list[str]:
    width = max(len(cell.label) for cell in cells)
    lines = [
        f"cells in their order{'':<{max(0, width - 18)}}  generated    trained  evaluation   FLOPs      time"
    ]
    for cell, cost in zip(cells, costs, strict=True):
        lines.append(
            f"  {cell.label:<{width}}  {amount(cost.generated_tokens):>9}  {amount(cost.trained_tokens):>9}"
            f"  {amount(cost.evaluation_tokens):>10}  {amount(cost.flops):>6}  {duration(cost.seconds):>8}"
        )
    return lines


def _cost(preset: Preset, whole: Cost, jobs: int) -> list[str]:
    rates = preset.rates
    what = "GPU-hours" if preset.one_device_each else "core-hours"
    return [
        f"in all: {amount(whole.generated_tokens)} tokens generated, {amount(whole.trained_tokens)} trained,"
        f" {amount(whole.evaluation_tokens)} for evaluations; {amount(whole.flops)} FLOPs",
        f"ESTIMATE: {whole.device_seconds / 3600:.1f} {what}, {duration(whole.seconds / jobs)} with {jobs} cells at a time",
        f"  a cell = start {rates.start_s:.0f} s + rounds x (longest of {rates.completion_tokens:.0f} tokens at"
        f" {rates.sequence_tokens_s:.0f}/s a sequence and all at {amount(rates.generate_tokens_s)}/s,"
        f" + update at {amount(rates.update_tokens_s)} tokens/s, + {rates.round_s:g} s) + evaluations"
        + ("; nodes side by side" if preset.one_device_each else "; nodes one after the other"),
        f"  prompts of {rates.prompt_tokens:.0f} tokens; each parameter costs 2 FLOPs a token generated, 6 a token trained",
        f"  rates: {rates.origin}",
    ]


def _choices(preset: Preset) -> list[str]:
    width = max(len(name) for name, _ in preset.choices)
    return [
        "other than in the paper, or not stated there",
        *(f"  {name:<{width}}  {value}" for name, value in preset.choices),
    ]


def _by_hand(cell: Cell) -> list[str]:
    lines = start_commands(cell, Path("runs") / "by-hand")
    return [
        "",
        f"the nodes of one cell ({cell.label}) by hand, for example on several machines:",
        *(f"  {line}" for line in lines),
    ]
