"""The verdicts in words: tables by group, ratios by horizon, what was not run, and one line each for a terminal."""

import math
from collections.abc import Sequence

from swarmd.experiment.reporting.document import Block, Heading, Items, Table, Text, table_of
from swarmd.experiment.reporting.hypotheses import DIFFERENCE, EACH_NODE
from swarmd.experiment.reporting.measures import ROUND
from swarmd.experiment.reporting.statistics import Estimate
from swarmd.experiment.reporting.verdicts import HORIZONS, NOT_RUN, Verdict

_READING = """
An effect is the ratio of the first arm's value to the second's (or their difference, where said), paired by seed. A claim holds
when the whole 95 % interval lies on its side of the bar, does not hold when it lies on the other, and is not decided when it
covers the bar or when there are too few seeds. Ratios of cumulative rewards belong to their horizon, the rounds, and tell
mostly who took off sooner: read them beside those of the end.
"""
_HORIZONS = """
Cumulative reward over the first part of the rounds alone, with 95 % intervals.
"""


def verdict_blocks(found: Sequence[Verdict]) -> list[Block]:
    """Verdicts by scenario and group, horizons, single nodes, and what was not run."""
    run = [v for v in found if v.state != NOT_RUN]
    if not run:
        text = "No comparison could be made: no two arms of a claim have finished cells."
        return [Heading(2, "Verdicts"), Text(text)]
    blocks: list[Block] = [Heading(2, "Verdicts"), Text(_READING)]
    for scenario in dict.fromkeys(v.hypothesis.scenario for v in run):
        for group in dict.fromkeys(v.hypothesis.group for v in run if v.hypothesis.scenario == scenario):
            chosen = [v for v in run if (v.hypothesis.scenario, v.hypothesis.group) == (scenario, group)]
            blocks += [Heading(3, f"{group} ({scenario})"), _verdict_table(chosen)]
            blocks += [Text(f"{v.hypothesis.question} {note}.") for v in chosen for note in v.notes]
            blocks += [block for v in chosen if v.nodes for block in _node_table(v)]
    return [*blocks, *_horizons(run), *_not_run([v for v in found if v.state == NOT_RUN])]


def summary(found: Sequence[Verdict]) -> str:
    """The verdicts for a terminal: one line each, the most decisive words first."""
    lines = []
    for v in found:
        if v.estimate is None:
            continue
        h = v.hypothesis
        figures = f"{effect_of(v)} ({interval_of(v, v.estimate)})"
        lines.append(f"{v.state:<14} {figures:<26} {len(v.seeds)} seeds  {h.scenario}: {h.question}")
    if not lines:
        return "no two arms of a claim to compare"
    num = sum(v.state == NOT_RUN for v in found)
    return "\n".join([*lines, f"{num} claims were not run"])


def _verdict_table(chosen: Sequence[Verdict]) -> Table:
    published = any(v.hypothesis.published is not None for v in chosen)
    return table_of([_row(v, published=published) for v in chosen])


def _row(v: Verdict, *, published: bool) -> dict[str, str]:
    h = v.hypothesis
    assert v.estimate is not None
    return {
        "question": h.question,
        "arms": f"{h.arm} : {h.against}",
        "verdict": v.state,
        "effect": effect_of(v),
        "95 % interval": interval_of(v, v.estimate),
        **({"published (fresh)": _published(v)} if published else {}),
        "seeds": str(len(v.seeds)),
        "rounds": f"{v.rounds:.0f}" if v.rounds is not None else "–",
        "each seed's own": _each_seed(v),
        "why": v.reason,
    }


def is_difference(v: Verdict) -> bool:
    return v.hypothesis.statistic in (DIFFERENCE, EACH_NODE)


def effect_of(v: Verdict) -> str:
    """The effect, with the sign or factor that tells what it is."""
    assert v.estimate is not None
    return shown(v.estimate.effect, difference=is_difference(v))


def interval_of(v: Verdict, estimate: Estimate) -> str:
    """The interval that the verdict goes by."""
    if estimate.interval is None:
        return "–"
    low, high = (shown(end, difference=is_difference(v)) for end in estimate.interval)
    return f"{low} to {high}"


def shown(value: float, *, difference: bool) -> str:
    if math.isnan(value):
        return "–"
    if math.isinf(value) or abs(value) >= 1000:
        return ">1000"
    return f"{value:+.4f}" if difference else f"{value:.2f}"


def _each_seed(v: Verdict) -> str:
    difference = is_difference(v)
    parts = []
    for pair in v.seeds:
        ratio = pair.a / pair.b if pair.b else math.inf if pair.a else math.nan
        parts.append(f"{pair.seed}: {shown(pair.a - pair.b if difference else ratio, difference=difference)}")
    return ", ".join(parts)


def _published(v: Verdict) -> str:
    published, estimate = v.hypothesis.published, v.estimate
    if published is None or estimate is None:
        return "–"
    if estimate.interval is None:
        return f"{published:.2f}"
    low, high = estimate.interval
    return f"{published:.2f} ({'inside' if low <= published <= high else 'outside'} the interval)"


def _node_table(v: Verdict) -> list[Block]:
    rows = [
        [name, shown(estimate.effect, difference=True), interval_of(v, estimate)]
        for name, estimate in v.nodes
    ]
    return [
        Text(f"{v.hypothesis.question} Node by node:"),
        Table(["node", "difference", "95 % interval"], rows),
    ]


def _horizons(run: Sequence[Verdict]) -> list[Block]:
    """Ratios at parts of the rounds."""
    rows = []
    for v in run:
        if not v.horizons or v.hypothesis.axis != ROUND:
            continue
        h = v.hypothesis
        row = [h.scenario, f"{h.arm} : {h.against}", h.measure]
        row += [f"{shown(at.estimate.effect, difference=False)} [{_short(at.estimate)}]" for at in v.horizons]
        if row not in rows:
            rows.append(row)
    if not rows:
        return []
    head = ["scenario", "arms", "reward", *(f"{fraction:.0%} of the rounds" for fraction in HORIZONS)]
    return [Heading(3, "Ratios by horizon"), Text(_HORIZONS), Table(head, rows)]


def _short(estimate: Estimate) -> str:
    if estimate.interval is None:
        return "–"
    return ", ".join(shown(end, difference=False) for end in estimate.interval)


def _not_run(gaps: Sequence[Verdict]) -> list[Block]:
    if not gaps:
        return []
    reasons: dict[str, dict[str, None]] = {}
    for v in gaps:
        h = v.hypothesis
        asked = f"{h.group}: {h.arm} against {h.against} in {h.measure.replace('_', ' ')} by {h.axis}"
        reasons.setdefault(f"{h.scenario}, {v.reason}", {})[asked] = None
    return [
        Heading(3, "Not run"),
        Items([f"{reason}. {'; '.join(asked)}." for reason, asked in reasons.items()]),
    ]
