"""What an experiment would do and cost, in text, without starting anything."""

from collections.abc import Sequence
from pathlib import Path

from swarmd.errors import NoDevice
from swarmd.experiment.presets import Preset
from swarmd.experiment.running.by_hand import start_commands
from swarmd.experiment.running.cost import NOTHING, amount, cell_cost, duration
from swarmd.experiment.running.plan import PlannedCell
from swarmd.node.children import count_gpus
from swarmd.protocol.manifest import Manifest


def describe(
    preset: Preset, plan: Sequence[PlannedCell], manifest: Manifest, *, jobs: int, num_gpus: int | None = None
) -> list[str]:
    """The lines of `--dry-run`."""
    trouble = device_trouble(preset, num_gpus=count_gpus() if num_gpus is None else num_gpus)
    return [
        *_head(preset, plan, manifest),
        "",
        *_arms(plan),
        "",
        *_cells(preset, plan),
        "",
        *_cost(preset, plan, jobs),
        "",
        f"This machine: {trouble or 'has what it takes'}",
        *_choices(preset),
        *_by_hand(preset, plan),
    ]


def device_trouble(preset: Preset, *, num_gpus: int) -> str:
    """Why this machine cannot run it; empty when nothing speaks against it."""
    if not preset.settings.get("policy.device", "auto").startswith("cuda"):
        return ""
    needed = preset.num_nodes if preset.one_device_each and preset.runner == "processes" else 1
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


def _head(preset: Preset, plan: Sequence[PlannedCell], manifest: Manifest) -> list[str]:
    seeds = sorted({planned.cell.seed for planned in plan})
    names = ", ".join(dict.fromkeys(dataset.name for dataset in manifest.datasets))
    return [
        f"preset {preset.name}: {preset.text}",
        f"{len(plan)} cells of {preset.num_nodes} nodes and {preset.rounds} rounds, {preset.runner}, model {preset.model}",
        f"seeds {', '.join(map(str, seeds))}; manifest {manifest.name} ({manifest.digest.hex()[:16]}): {names}",
    ]


def _arms(plan: Sequence[PlannedCell]) -> list[str]:
    arms = {planned.arm.name: planned for planned in plan}
    width = max(map(len, arms))
    lines = ["arms"]
    for name, planned in arms.items():
        settings = " ".join(f"{key}={value}" for key, value in planned.arm.settings.items())
        lines.append(f"  {name:<{width}}  {settings}   ({planned.arm.text})")
    own = {key for planned in plan for key in planned.arm.settings}
    common = {key: value for key, value in plan[0].cell.settings.items() if key not in own}
    return [*lines, "settings of all", *(f"  {key}={value}" for key, value in sorted(common.items()))]


def _cells(preset: Preset, plan: Sequence[PlannedCell]) -> list[str]:
    width = max(len(planned.label) for planned in plan)
    lines = [
        f"cells in their order{'':<{max(0, width - 18)}}  generated    trained  evaluation   FLOPs      time"
    ]
    for planned in plan:
        cost = cell_cost(planned, preset)
        lines.append(
            f"  {planned.label:<{width}}  {amount(cost.generated_tokens):>9}  {amount(cost.trained_tokens):>9}"
            f"  {amount(cost.evaluation_tokens):>10}  {amount(cost.flops):>6}  {duration(cost.seconds):>8}"
        )
    return lines


def _cost(preset: Preset, plan: Sequence[PlannedCell], jobs: int) -> list[str]:
    total = sum((cell_cost(planned, preset) for planned in plan), NOTHING)
    rates = preset.rates
    what = "GPU-hours" if preset.one_device_each else "core-hours"
    return [
        f"in all: {amount(total.generated_tokens)} tokens generated, {amount(total.trained_tokens)} trained,"
        f" {amount(total.evaluation_tokens)} for evaluations; {amount(total.flops)} FLOPs",
        f"ESTIMATE: {total.device_seconds / 3600:.1f} {what}, {duration(total.seconds / jobs)} with {jobs} cells at a time",
        f"  a cell = start {rates.start_s:.0f} s + rounds x (longest of {rates.completion_tokens:.0f} tokens at"
        f" {rates.sequence_tokens_s:.0f}/s a sequence and all at {amount(rates.generate_tokens_s)}/s,"
        f" + update at {amount(rates.update_tokens_s)} tokens/s, + {rates.round_s:g} s) + evaluations"
        + ("; nodes side by side" if preset.one_device_each else "; nodes one after the other"),
        f"  prompts of {rates.prompt_tokens:.0f} tokens; each parameter costs 2 FLOPs a token generated, 6 a token trained",
        f"  rates: {rates.origin}",
    ]


def _choices(preset: Preset) -> list[str]:
    if not preset.choices:
        return []
    width = max(len(name) for name, _ in preset.choices)
    return [
        "",
        "other than in the paper, or not stated there",
        *(f"  {n:<{width}}  {v}" for n, v in preset.choices),
    ]


def _by_hand(preset: Preset, plan: Sequence[PlannedCell]) -> list[str]:
    if preset.runner != "processes":
        return []
    first = plan[0]
    lines = ["", f"the nodes of one cell ({first.label}) by hand, for example on several machines:"]
    return lines + [f"  {line}" for line in start_commands(first, Path("runs") / "by-hand")]
