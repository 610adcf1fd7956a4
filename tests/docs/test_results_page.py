"""The page of results says no more than its reports: every ratio with an interval stands in one, or follows from its seeds."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from swarmd.experiment.reporting.statistics import ratio

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results"
PAGE = (RESULTS / "README.md").read_text()
REPORTS = {path.parent.name: path.read_text().replace("\\", "") for path in RESULTS.glob("*/report.md")}
# Arms, report and swarm, number of seeds, and what the three columns hold.
ROWS = re.findall(r"^\| ([^|]+) : ([^|]+) \| (\w+), (\w+) \| (\d+) \| (.*) \|$", PAGE, re.M)
COLUMNS = ("fresh, cumulative", "held-out, cumulative", "held-out, final")
# Effect, low, high; ends that a report writes as `low to high` in the next cell.
ESTIMATE = r"(\d+\.\d+) \[(\d+\.\d+), (\d+\.\d+)\]"
IN_CELLS = r"\+?(\d+\.\d+) \| \+?(\d+\.\d+) to \+?(\d+\.\d+)"


@cache
def seeds_of(report: str, swarm: str) -> dict[str, dict[int, dict[str, float]]]:
    """The table of every seed of a report: arm, seed, column."""
    table = REPORTS[report].split(f"## Scenario: {swarm}\n")[1].split("### Every seed\n")[1]
    lines = [line.strip("| ").split(" | ") for line in table.strip().split("\n\n")[0].splitlines()]
    found: dict[str, dict[int, dict[str, float]]] = {}
    for arm, seed, *values in lines[2:]:
        found.setdefault(arm, {})[int(seed)] = dict(zip(lines[0][2:], map(float, values), strict=True))
    return found


def recomputed(arm: str, against: str, report: str, swarm: str) -> tuple[int, list[str]]:
    """The number of seeds that both arms have, and the ratio of each column as the page writes it."""
    a, b = (seeds_of(report, swarm)[name] for name in (arm, against))
    seeds = sorted(set(a) & set(b))
    found = [
        ratio(*(np.array([arm[seed][column] for seed in seeds]) for arm in (a, b))) for column in COLUMNS
    ]
    ends = [one.interval for one in found]
    assert None not in ends
    return len(seeds), [
        f"{one.effect:.2f} [{end[0]:.2f}, {end[1]:.2f}]" for one, end in zip(found, ends, strict=True) if end
    ]


def test_there_are_rows_to_check() -> None:
    assert len(ROWS) >= 15
    assert {report for _, _, report, *_ in ROWS} == set(REPORTS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} : {row[1]} {row[3]}")
def test_a_row_follows_from_its_seeds(row: tuple[str, ...]) -> None:
    arm, against, report, swarm, num_seeds, figures = row
    assert (int(num_seeds), figures.split(" | ")) == recomputed(arm, against, report, swarm)


def test_every_interval_stands_in_a_report_or_in_a_row() -> None:
    known = {
        found
        for text in REPORTS.values()
        for form in (ESTIMATE, IN_CELLS)
        for found in re.findall(form, text)
    }
    known |= {found for *_, figures in ROWS for found in re.findall(ESTIMATE, figures)}
    for claimed in re.findall(ESTIMATE, PAGE):
        digits = len(claimed[0].partition(".")[2])
        assert any(_rounded(found, digits) == claimed for found in known), claimed


def test_a_total_of_tokens_stands_in_a_report() -> None:
    said = set(re.findall(r"\d\d,\d{3}", PAGE)) - {"18,797"}  # of the one run that is said to be a review's
    assert len(said) >= 5
    assert all(any(number in text for text in REPORTS.values()) for number in said)


def _rounded(found: tuple[str, ...], digits: int) -> tuple[str, ...]:
    return tuple(f"{float(number):.{digits}f}" for number in found)
