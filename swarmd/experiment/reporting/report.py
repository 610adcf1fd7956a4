"""`swarmd experiment report`: report.md, report.html and pictures of a folder of cells; a rerun repeats."""

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swarmd.experiment.reporting.document import Block, Figure, Heading, Text, to_html, to_markdown
from swarmd.experiment.reporting.results import Experiment, read_experiment
from swarmd.experiment.reporting.tables import scenario_tables
from swarmd.experiment.reporting.texts import left_out, method, opening, repeat
from swarmd.experiment.reporting.verdict_texts import verdict_blocks
from swarmd.experiment.reporting.verdicts import Verdict, verdicts
from swarmd.files.atomic import write_atomically


@dataclass(frozen=True)
class Report:
    experiment: Experiment
    verdicts: list[Verdict]
    directory: Path


def write_report(directory: Path, output: Path | None = None, seeds: Sequence[int] | None = None) -> Report:
    """Reads the cells below `directory` and writes the report into `output` (default: its folder `report`).

    `seeds` leaves out all others: arms chosen on some seeds are confirmed on others.

    Raises:
        ConfigError: there is no cell to compare.
        DiskFull, OSError: the report cannot be written.
    """
    experiment = read_experiment(directory, seeds)
    found = verdicts(experiment)
    output = output or directory / "report"
    output.mkdir(parents=True, exist_ok=True)
    pictures = _pictures(experiment, output)
    blocks: list[Block] = [*opening(experiment, seeds), *verdict_blocks(found)]
    for scenario in experiment.scenarios:
        blocks += [Heading(2, f"Scenario: {scenario}"), *scenario_tables(experiment, scenario)]
        blocks += pictures.get(scenario, [])
    if not pictures:
        blocks.append(Text("No pictures: matplotlib is not installed (pip install 'swarmd[experiments]')."))
    blocks += [*method(found), *left_out(experiment), *repeat(experiment)]
    write_atomically(output / "report.md", to_markdown(blocks).encode())
    write_atomically(output / "report.html", to_html(blocks, output).encode())
    return Report(experiment, found, output)


def _pictures(experiment: Experiment, output: Path) -> dict[str, list[Figure]]:
    """The figures of each scenario; nothing where matplotlib is missing: the report says so."""
    if importlib.util.find_spec("matplotlib") is None:
        return {}
    from swarmd.experiment.reporting.figures import scenario_figures

    prefixes = file_names(experiment.scenarios)
    return {name: scenario_figures(experiment, name, output, prefixes[name]) for name in experiment.scenarios}


def file_names(scenarios: Sequence[str]) -> dict[str, str]:
    """A harmless and distinct beginning of file names for each scenario, whatever it is called."""
    names: dict[str, str] = {}
    for scenario in scenarios:
        plain = re.sub(r"[^a-z0-9]+", "-", scenario.lower()).strip("-") or "scenario"
        while plain in names.values():
            plain += "-"
        names[scenario] = plain
    return names
