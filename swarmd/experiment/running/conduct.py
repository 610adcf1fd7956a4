"""An experiment from the command line's words to its report: choose, check, run, write down."""

import difflib
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swarmd.errors import ConfigError
from swarmd.experiment.arms import Arm, choose_arms
from swarmd.experiment.presets import PRESETS, Preset, RunnerKind
from swarmd.experiment.running.cell_process import Command, cell_command
from swarmd.experiment.running.cost import Pace, cell_cost, duration
from swarmd.experiment.running.dry_run import describe, require_devices
from swarmd.experiment.running.plan import PlannedCell, make_plan, waiting_cells
from swarmd.experiment.running.progress import Display
from swarmd.experiment.running.provenance import record
from swarmd.experiment.running.run import Outcome, Run, hold, require_space
from swarmd.experiment.scenarios import SCENARIOS
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
    scenarios: str | None = None
    rounds: int | None = None
    num_nodes: int | None = None
    minutes: float | None = None
    jobs: int | None = None
    runner: RunnerKind | None = None
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
    model = settings.pop("policy.model", preset.model)
    runner = request.runner or preset.runner
    return replace(
        preset,
        rounds=request.rounds or preset.rounds,
        num_nodes=request.num_nodes or preset.num_nodes,
        runner=runner,
        one_device_each=preset.one_device_each and runner == "processes",
        model=model,
        manifest=settings.get("swarm.name", preset.manifest),
        settings={**preset.settings, **settings},
    )


def chosen_seeds(text: str | None, preset: Preset) -> list[int]:
    """Those of the command line, or else the preset's. Raises ConfigError."""
    return list(preset.seeds) if text is None else parse_seeds(text)


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


def chosen_scenarios(text: str | None, preset: Preset) -> list[str]:
    """Names between commas. Raises ConfigError for an unknown one."""
    if text is None:
        return list(preset.scenarios)
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in SCENARIOS:
            near = difflib.get_close_matches(name, SCENARIOS, 1)
            raise ConfigError(
                f"unknown scenario {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
                fix=f"one of {', '.join(SCENARIOS)}",
            )
    return list(dict.fromkeys(names))


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
    arms: list[Arm] = choose_arms(request.arms or (",".join(preset.arms),))
    seeds, scenarios = chosen_seeds(request.seeds, preset), chosen_scenarios(request.scenarios, preset)
    plan = make_plan(preset, arms, seeds, scenarios)
    manifest = load_manifest(preset.manifest)
    jobs = chosen_jobs(request.jobs, preset, len(plan))
    root = (request.folder or Path("runs") / f"experiment-{preset.name}").absolute()
    if request.dry_run:
        display.say("\n".join(describe(preset, plan, manifest, jobs=jobs)))
        return 0
    require_devices(preset)
    deadline_s = None if request.minutes is None else time.monotonic() + request.minutes * 60
    with hold(root) as lock:
        waiting = waiting_cells(root, plan, again=request.again)
        require_space(root, waiting)
        for note in record(root, preset, manifest, argv):
            display.say(f"! this folder was begun with other software: {note}")
        pace = Pace(preset)
        display.say(_opening(root, plan, waiting, preset, jobs, request.minutes))
        ensure({node.model for planned in waiting for node in planned.cell.nodes}, root, display.say)
        run = Run(
            root, list(waiting), pace, display, jobs,
            deadline_s=None if deadline_s is None else deadline_s - min(REPORT_S, (request.minutes or 0) * 6),
            command=command, inherited=(lock,),
        )  # fmt: skip
        outcome = run.execute()
    for line in closing(outcome, waiting, pace, root, argv):
        display.say(line)
    if not outcome.interrupted:
        report(root, display)
    return outcome.exit_code


def _opening(
    root: Path,
    plan: Sequence[PlannedCell],
    waiting: Sequence[PlannedCell],
    preset: Preset,
    jobs: int,
    minutes: float | None,
) -> str:
    kept = f", {len(plan) - len(waiting)} are done already" if len(waiting) < len(plan) else ""
    expected = sum(cell_cost(planned, preset).seconds for planned in waiting) / jobs
    budget = "" if minutes is None else f", at most {duration(minutes * 60)}"
    return (
        f"{len(plan)} cell{'s' * (len(plan) > 1)} of {preset.num_nodes} nodes and {preset.rounds} rounds in {root}{kept};"
        f" {jobs} at a time, about {duration(expected)}{budget}"
    )


def closing(
    outcome: Outcome, waiting: Sequence[PlannedCell], pace: Pace, root: Path, argv: Sequence[str]
) -> list[str]:
    """What came of it, what is missing, and how to go on."""
    lines = [f"failed: {label}: {error}" for label, error in outcome.failed.items()]
    missing = outcome.stopped + outcome.not_started
    if missing:
        left = [planned for planned in waiting if planned.label in missing]
        needed = duration(sum(pace.expected_s(planned) for planned in left))
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


def command_line() -> list[str]:
    """The words that this process was started with, for the record."""
    return ["swarmd", *sys.argv[1:]]
