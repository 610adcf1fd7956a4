"""What a soak found, from its samples: a table of slopes with verdicts, and a projection to 30 days."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swarmd.config.sections import ExperienceSettings
from swarmd.experience.schema import TOMBSTONES_MAX
from swarmd.experience.store import LOG_BYTES_MAX
from swarmd.loops.report import HISTORY_BYTES_MAX
from tests.soak.sample import Sample
from tests.soak.slopes import Judged, Verdict, judge

# What may rise to a bound that the product keeps: its ceiling in the measure's unit. The buffer's file holds rollouts up to their
# bound, tombstones (twice: a row and an index entry), and SQLite's log of changes.
TOMBSTONE_BYTES = 150
BUFFER_BYTES_MAX = ExperienceSettings().size_bytes_max + TOMBSTONES_MAX * TOMBSTONE_BYTES + LOG_BYTES_MAX
CEILINGS = {"disk history MB": 2 * HISTORY_BYTES_MAX / 1e6, "disk buffer MB": BUFFER_BYTES_MAX / 1e6}


@dataclass(frozen=True)
class Row:
    """One measure of one node; `replaced` where its process is another one than at the beginning, so that nothing is judged."""

    node: str
    name: str
    judged: Judged
    replaced: bool = False

    @property
    def ceiling(self) -> float | None:
        return CEILINGS.get(self.name)

    @property
    def fails(self) -> bool:
        """Whether it rises without a bound, or was not watched long enough to know."""
        return self.judged.verdict is Verdict.SHORT or (
            self.judged.verdict is Verdict.RISES and self.ceiling is None
        )


def rows_of(samples: Iterable[Sample]) -> list[Row]:
    """Judge every measure of every node that was there for the whole run."""
    by_node = defaultdict(list)
    for sample in samples:
        by_node[sample.node].append(sample)
    return [row for node, found in sorted(by_node.items()) for row in _rows(node, found)]


def table(rows: Sequence[Row]) -> str:
    """A line a measure: the node in which it rose most, relative to its level, and how many nodes were judged alike or better."""
    lines = [
        f"{'measure':<26}{'node':<9}{'first':>9}{'last':>9}{'an hour':>10}{'interval':>20}{'later half':>12}"
        f"{'30 days':>10}{'at most':>10}  verdict"
    ]
    names = list(dict.fromkeys(row.name for row in rows))
    for name in names:
        lines.append(_line(max((row for row in rows if row.name == name), key=_badness)))
    return "\n".join(lines)


def _rows(node: str, samples: Sequence[Sample]) -> Iterable[Row]:
    names = list(dict.fromkeys(name for sample in samples for name in sample.values))
    began = samples[0].at_s
    for name in names:
        there = [sample for sample in samples if name in sample.values]
        process = name.split()[0]
        replaced = len({sample.pids[process] for sample in there if process in sample.pids}) > 1
        hours = [(sample.at_s - began) / 3600 for sample in there]
        yield Row(node, name, judge(hours, [sample.values[name] for sample in there]), replaced)


def _badness(row: Row) -> tuple[bool, float]:
    return row.fails, row.judged.late.low / max(1e-9, row.judged.last)


def _line(row: Row) -> str:
    found = row.judged
    month, most = found.in_a_month, found.in_a_month_at_most
    verdict = str(found.verdict)
    if row.ceiling is not None and found.verdict is Verdict.RISES:
        month, most, verdict = min(month, row.ceiling), min(most, row.ceiling), f"rises to {row.ceiling:.0f}"
    if row.replaced:
        verdict += ", replaced meanwhile"
    interval = f"{found.slope.low:+.3g} to {found.slope.high:+.3g}"
    return (
        f"{row.name:<26}{row.node:<9}{found.first:>9.4g}{found.last:>9.4g}{found.slope.an_hour:>+10.3g}{interval:>20}"
        f"{found.late.an_hour:>+12.3g}{month:>10.4g}{most:>10.4g}  {verdict}"
    )
