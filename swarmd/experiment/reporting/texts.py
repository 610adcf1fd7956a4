"""The report's frame in words: what was run, how it was computed, what is missing, and everything needed to repeat it."""

import json
import shlex
from collections.abc import Mapping, Sequence

from swarmd.experiment.cell import NAME_MAX
from swarmd.experiment.presets import PRESETS
from swarmd.experiment.reporting import statistics
from swarmd.experiment.reporting.document import Block, Code, Heading, Items, Table, Text
from swarmd.experiment.reporting.hypotheses import SEEDS_MIN, SEEDS_MIN_BEST
from swarmd.experiment.reporting.results import Experiment
from swarmd.experiment.reporting.verdicts import NOT_RUN, Verdict, listed
from swarmd.printable import printable


def opening(experiment: Experiment, seeds: Sequence[int] | None) -> list[Block]:
    cells = experiment.cells
    all_seeds = sorted({cell.spec.seed for cell in cells})
    rounds = sorted({cell.spec.rounds for cell in cells})
    nodes = sorted({len(cell.nodes) for cell in cells})
    preset = experiment.facts.get("preset")
    chosen = " (chosen for this report; others are not in it)" if seeds is not None else ""
    items = [
        f"{len(cells)} finished cells, {len(experiment.left_out)} left out (listed below)",
        f"scenarios: {', '.join(experiment.scenarios)}",
        f"seeds: {listed(all_seeds)}{chosen}",
        f"nodes of a cell: {listed(nodes)}; rounds: {listed(rounds)}",
    ]
    return [Heading(1, "Experiment report" + (f": {preset}" if preset else "")), Items(items)]


_KINDS = """
Fresh own reward (all completions that a node generated), the reward of what it trained on, and held-out evaluations are never
mixed. Training-set reward depends on what the filter lets through, so it compares no arms.
"""
_PAIRED = "With one seed, a node has the same identity and so the same questions in every arm: arms are paired by seed and node."
_INTERVAL = """
A ratio is that of sums over seeds. Its interval is the wider of two: the percentile interval of a paired bootstrap over seeds
({resamples:,} resamples, seed {seed}), and a paired t-interval of the logarithms. With few seeds the bootstrap has few distinct
resamples ({distinct}) and is too narrow. Where a value is zero, Fieller's interval stands in for the t-interval.
"""
_SEEDS = """
A verdict takes at least {seeds_min} seeds, a claim to beat the paper {seeds_min_best}; intervals are printed with fewer, too.
"""
_AXES = """
Rewards per token or second: for each node, the area under its reward up to the largest number of tokens or seconds that both
arms reach, divided by that number. Where the cheaper arm ends before the dearer one takes off, such a ratio is far above that of
the tokens which both need to a level. Busy seconds are those of generation and update, measured on a machine that may have done
other things as well. Scoring, checking and storing what others send is not in them, and grows with the swarm.
"""
_HELD_OUT = """
Cumulative held-out reward is the area under straight lines between evaluations. All nodes and seeds answer the same held-out
questions: the intervals say nothing of other questions.
"""
_MANY = """
{num} comparisons were made here, and no interval is corrected for their number: of 20 claims without any effect, one is
expected to miss.
"""


def method(found: Sequence[Verdict]) -> list[Block]:
    """How the numbers came about, and what they cannot carry."""
    estimates = [v.estimate for v in found if v.estimate is not None]
    counts = sorted({e.num_seeds for e in estimates if e.num_seeds > 1}) or [SEEDS_MIN]
    distinct = "; ".join(f"{n} seeds: {statistics.num_distinct_resamples(n)}" for n in counts)
    interval = _INTERVAL.format(
        resamples=statistics.RESAMPLES, seed=statistics.RESAMPLE_SEED, distinct=distinct
    )
    num = sum(v.state != NOT_RUN for v in found)
    seeds = _SEEDS.format(seeds_min=SEEDS_MIN, seeds_min_best=SEEDS_MIN_BEST)
    items = [_KINDS, _PAIRED, interval, seeds, _AXES, _HELD_OUT, _MANY.format(num=num)]
    return [Heading(2, "How it was computed"), Items(items)]


def left_out(experiment: Experiment) -> list[Block]:
    if not experiment.left_out:
        return [Heading(2, "Cells left out"), Text("None.")]
    rows = [[gap.place, gap.status, gap.reason] for gap in experiment.left_out]
    return [Heading(2, "Cells left out"), Table(["cell", "status", "reason"], rows)]


def repeat(experiment: Experiment) -> list[Block]:
    facts = experiment.facts
    blocks: list[Block] = [Heading(2, "To repeat it")]
    runs = _runs(facts)
    commands = dict.fromkeys(_command(run["command"]) for run in runs if run.get("command"))
    blocks += [Code(command) for command in commands]
    rows = _flat({key: value for key, value in facts.items() if key not in ("command", "runs")})
    for number, run in enumerate(runs[1:], 2):
        rows += _flat({key: value for key, value in run.items() if key != "command"}, f"run {number}")
    rows.append(("seeds", listed(sorted({cell.spec.seed for cell in experiment.cells}))))
    blocks.append(Table(["fact", "value"], rows))
    if (preset := PRESETS.get(str(facts.get("preset")))) is not None:
        blocks += [
            Heading(3, "Other than in the paper, or not stated there"),
            Table(["of", "here"], preset.choices),
        ]
    for scenario in experiment.scenarios:
        blocks += _settings(experiment, scenario)
    return blocks


def _runs(facts: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = facts.get("runs")
    return [run for run in found if isinstance(run, dict)] if isinstance(found, list) else [facts]


def _settings(experiment: Experiment, scenario: str) -> list[Block]:
    """What sets each arm apart, the settings that all of them share, and the nodes."""
    by_arm = {
        arm: [cell.spec.settings for cell in experiment.of(scenario, arm).values()]
        for arm in experiment.arms(scenario)
    }
    everywhere = [settings for found in by_arm.values() for settings in found]
    shared = {
        key: value
        for key, value in everywhere[0].items()
        if all(key in settings and settings[key] == value for settings in everywhere)
    }
    rows = []
    for arm, found in by_arm.items():
        variants = dict.fromkeys(_own(settings, shared) for settings in found)
        rows.append([arm, " / or, with other seeds: ".join(variants)])
    blocks: list[Block] = [Heading(3, f"Settings: {scenario}"), Table(["arm", "its own settings"], rows)]
    if shared:
        table = Table(["setting", "value"], sorted(shared.items()))
        blocks += [Text("The same in all arms:"), table]
    first = next(iter(experiment.of(scenario, experiment.arms(scenario)[0]).values()))
    nodes = [
        [
            n.name,
            printable(n.model, NAME_MAX),
            f"{n.speed:g}",
            ", ".join(n.datasets) or "all",
            str(n.joins_at_round),
            _own(n.settings, {}),
        ]
        for n in first.spec.nodes
    ]
    head = ["node", "model", "speed", "datasets", "joins at round", "its own settings"]
    return [*blocks, Text(f"Nodes ({first.spec.arm}, seed {first.spec.seed}):"), Table(head, nodes)]


def _own(settings: Mapping[str, str], shared: Mapping[str, str]) -> str:
    """Settings that are not shared, in one line."""
    return ", ".join(f"{key}={value}" for key, value in sorted(settings.items()) if key not in shared) or "–"


def _command(value: object) -> str:
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value)


def _flat(value: object, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            row for key, part in value.items() for row in _flat(part, f"{path}.{key}" if path else str(key))
        ]
    return [(path, _value(value))]


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
