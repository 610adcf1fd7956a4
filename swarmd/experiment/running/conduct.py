"""An experiment from the command line's words to its report: choose, check, run, write down."""

import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swarmd.errors import ConfigError
from swarmd.experiment.arms import Arm, choose_arms
from swarmd.experiment.cell import Cell, Runner
from swarmd.experiment.presets import PRESETS, Preset
from swarmd.experiment.running.cell_process import Command, cell_command
from swarmd.experiment.running.cells import cells_of, waiting_cells
from swarmd.experiment.running.cost import Pace, cell_s, duration
from swarmd.experiment.running.dry_run import describe, require_devices
from swarmd.experiment.running.progress import Display
from swarmd.experiment.running.provenance import write_provenance
from swarmd.experiment.running.run import Outcome, Run, hold, require_space
from swarmd.experiment.swarms.models import ensure
from swarmd.policy.plans.room import look
from swarmd.protocol.manifest import load_manifest

# A simulation of eight nodes with the embedded policy holds half a GiB, its scorer and the nodes' buffers some more.
CELL_MEMORY_BYTES = 2**30
# Kept of the budget for the report.
REPORT_S = 30.0


@dataclass(frozen=True)
class Request:
    """The options of `swarmd experiment run`, a field each; None and empty stand for the preset's own."""

    preset: str
    arms: tuple[str, ...] = ()
    seeds: str | None = None
    scenarios: str = "alike"
    rounds: int | None = None
    num_nodes: int | None = None
    minutes: float | None = None
    jobs: int | None = None
    runner: Runner | None = None
    settings: tuple[tuple[str, str], ...] = ()
    again: bool = False
    dry_run: bool = False
    folder: Path | None = None


def chosen_preset(request: Request) -> Preset:
    """The preset with what the command line changes. Raises ConfigError when there is no such preset."""
    if request.preset not in PRESETS:
        raise ConfigError(f"unknown preset {request.preset!r}", fix=f"one of {', '.join(PRESETS)}")
    preset = PRESETS[request.preset]
    settings = dict(request.settings)
    return replace(
        preset,
        rounds=request.rounds or preset.rounds,
        num_nodes=request.num_nodes or preset.num_nodes,
        runner=request.runner or preset.runner,
        model=settings.pop("policy.model", preset.model),
        seeds=preset.seeds if request.seeds is None else tuple(parse_seeds(request.seeds)),
        settings={**preset.settings, **settings},
    )


def parse_seeds(text: str) -> list[int]:
    """`3` is the first three, `0,1,2` these, `10-14` all of these. Raises ConfigError for anything else."""
    if re.fullmatch(r"\d{1,4}", text):
        return list(range(int(text)))
    seeds: list[int] = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        if match is None or int(match[2] or match[1]) - int(match[1]) not in range(1000):
            raise ConfigError(
                f"--seeds {text!r} cannot be read",
                fix="3 (the first three), 0,1,2 or 10-14; a single one: 7,",
            )
        seeds += range(int(match[1]), int(match[2] or match[1]) + 1)
    return list(dict.fromkeys(seeds))


def chosen_jobs(jobs: int | None, preset: Preset, num_cells: int) -> int:
    """Cells at a time: as asked; else one for real nodes and on a GPU, a cell for each core that memory has room for."""
    if jobs is not None:
        return jobs
    if preset.runner == "processes" or preset.settings.get("policy.device") != "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    free = look("cpu").free_bytes
    room = int(free // CELL_MEMORY_BYTES) if free is not None else cores
    return max(1, min(cores, room, num_cells))


def conduct(
    request: Request, *, argv: Sequence[str], display: Display, command: Command = cell_command
) -> int:
    """Run an experiment, or say what it would be. Returns the exit code.

    Raises:
        SwarmdError: nothing was started; the message says why.
    """
    preset = chosen_preset(request)
    arms: list[Arm] = choose_arms(request.arms or preset.arms)
    scenarios = dict.fromkeys(part.strip() for part in request.scenarios.split(",") if part.strip())
    cells = cells_of(preset, arms, preset.seeds, list(scenarios))
    manifest = load_manifest(preset.manifest)
    jobs = chosen_jobs(request.jobs, preset, len(cells))
    root = (request.folder or Path("runs") / f"experiment-{preset.name}").absolute()
    if request.dry_run:
        display.say("\n".join(describe(preset, arms, cells, manifest, jobs=jobs)))
        return 0
    require_devices(preset)
    deadline_s = None
    if request.minutes is not None:
        deadline_s = time.monotonic() + request.minutes * 60 - min(REPORT_S, request.minutes * 6)
    with hold(root) as lock:
        waiting = waiting_cells(root, cells, again=request.again)
        require_space(root, waiting)
        for note in write_provenance(root, preset, manifest, argv):
            display.say(f"! this folder was begun with other software: {note}")
        pace = Pace(preset)
        display.say(_opening(root, cells, waiting, preset, jobs, request.minutes))
        ensure({node.model for cell in waiting for node in cell.nodes}, root, display.say)
        run = Run(
            root,
            list(waiting),
            pace,
            display,
            jobs,
            deadline_s=deadline_s,
            command=command,
            inherited=(lock,),
        )
        outcome = run.execute()
    for line in closing(outcome, waiting, pace, root):
        display.say(line)
    if not outcome.interrupted:
        report(root, display)
    if preset.must_learn and not outcome.exit_code:
        return say_who_learned(root, display)
    return outcome.exit_code


def _opening(
    root: Path,
    cells: Sequence[Cell],
    waiting: Sequence[Cell],
    preset: Preset,
    jobs: int,
    minutes: float | None,
) -> str:
    kept = f", {len(cells) - len(waiting)} are done already" if len(waiting) < len(cells) else ""
    expected = sum(cell_s(cell, preset) for cell in waiting) / jobs
    budget = "" if minutes is None else f", at most {duration(minutes * 60)}"
    return (
        f"{len(cells)} cell{'s' * (len(cells) > 1)} of {preset.num_nodes} nodes and {preset.rounds} rounds in {root}{kept};"
        f" {jobs} at a time, about {duration(expected)}{budget}"
    )


def closing(outcome: Outcome, waiting: Sequence[Cell], pace: Pace, root: Path) -> list[str]:
    """What came of it, what is missing, and how to go on."""
    lines = [f"failed: {label}: {error}" for label, error in outcome.failed.items()]
    missing = outcome.stopped + outcome.not_started
    if missing:
        needed = duration(sum(pace.expected_s(cell) for cell in waiting if cell.label in missing))
        lines.append(f"missing: {', '.join(missing)} (about {needed} of one job)")
    if outcome.interrupted:
        lines.append("stopped; no process is left behind")
    if missing or outcome.failed:
        lines.append(f"what is done is kept in {root}; the same command goes on from there")
    return lines


def report(root: Path, display: Display) -> None:
    """Write the report of what is done, and print its verdicts; without a finished cell there is nothing to report."""
    display.say("writing the report …")
    from swarmd.experiment.reporting.report import write_report
    from swarmd.experiment.reporting.verdict_texts import summary

    try:
        written = write_report(root)
    except ConfigError as error:
        display.say(f"no report: {error.what}")
        return
    display.say(f"\n{summary(written.verdicts)}\n\nreport  {written.directory / 'report.html'}")


def say_who_learned(root: Path, display: Display) -> int:
    """Judge the nodes of each cell one by one. Returns the exit code: 0 when all learned, and from each other."""
    from swarmd.experiment.reporting.document import to_markdown
    from swarmd.experiment.reporting.learned import shortcomings, table
    from swarmd.experiment.reporting.results import read_experiment

    cells = read_experiment(root).cells
    missing = [text for cell in cells for text in shortcomings(cell)]
    lines = (
        ["NOT shown:", *missing]
        if missing
        else ["Every node's reward rose, and every node used rollouts of every other."]
    )
    display.say("\n" + "\n".join([to_markdown([table(cell) for cell in cells]), *lines]))
    return 1 if missing else 0


def command_line() -> list[str]:
    """The words that this process was started with, for `experiment.json`."""
    return ["swarmd", *sys.argv[1:]]
