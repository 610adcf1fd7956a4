"""`swarmd experiment`: controlled comparisons of ways to share, and their reports."""

import signal
import sys
from pathlib import Path
from typing import Any

import click

from swarmd.cli.options import parse_settings


@click.group()
def experiment() -> None:
    """Compare ways to share, under control: the same seeds, the same questions, one difference."""


@experiment.command()
@click.option(
    "--preset",
    type=click.Choice(["demo", "smoke", "laptop", "paper"]),
    default="smoke",
    show_default=True,
    help="How large: a minute, minutes, an evening, or eight GPUs for days.",
)
@click.option(
    "--arms",
    multiple=True,
    metavar="A,B",
    help="Arms and groups (paper, controls, rates, steps, best, guards, all),"
    " or one of your own: NAME:section.key=value,section.key=value; repeatable.",
)
@click.option("--seeds", metavar="SEEDS", help="3 (the first three), 0,1,2 or 10-14; a single one: 7,")
@click.option(
    "--scenario", "scenarios", metavar="NAME,...", default="alike", help="alike, mixed, specialised, late."
)
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Rounds of each node.")
@click.option("--nodes", "num_nodes", type=click.IntRange(1, 64), metavar="N", help="Nodes of each swarm.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    metavar="M",
    help="The longest it may take, the report included.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="J",
    help="Cells at a time. [default: one a core; 1 for processes]",
)
@click.option(
    "--runner",
    type=click.Choice(["simulation", "processes"]),
    help="All nodes in one process and virtual time, or real nodes over libp2p.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda context, option, value: tuple(parse_settings(value).items()),
    help="A setting of every arm; repeatable.",
)
@click.option("--again", is_flag=True, help="Redo cells that were done with other settings.")
@click.option("--dry-run", is_flag=True, help="Print cells, settings and time, and start nothing.")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
def run(**options: Any) -> None:
    """Run the cells of an experiment that are not done yet in DIR, then write the report.

    A cell is one arm with one seed in one scenario. The same command goes on where it was stopped. DIR is runs/experiment-PRESET
    unless given. Exit code 0: all is done; 1: a cell failed, or the preset demo did not show that its nodes learned; 75: the
    minutes were over first; 130: Ctrl-C.
    """
    from swarmd.experiment.running.conduct import Request, command_line, conduct
    from swarmd.experiment.running.progress import Display

    # said outright: a job in the background inherits an ignored SIGINT
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if code := conduct(Request(**options), argv=command_line(), display=Display()):
        sys.exit(code)


@experiment.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--output", metavar="DIR", type=click.Path(path_type=Path), help="Where to write. [default: DIR/report]"
)
@click.option(
    "--seeds",
    metavar="SEEDS",
    help="Only these, as in 0-4,7: to confirm on some what was chosen on others.",
)
def report(directory: Path, output: Path | None, seeds: str | None) -> None:
    """Tables, pictures and a verdict for each claim, from the finished cells of an experiment."""
    from swarmd.experiment.reporting.report import write_report
    from swarmd.experiment.reporting.verdict_texts import summary
    from swarmd.experiment.running.conduct import parse_seeds

    written = write_report(directory, output, parse_seeds(seeds) if seeds is not None else None)
    click.echo(summary(written.verdicts))
    click.echo(f"\nreport  {written.directory / 'report.html'}")
