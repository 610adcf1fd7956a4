"""From a claim and the cells to a verdict: holds, does not hold, not decided or not run, with the effect and its interval."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from swarmd.experiment.reporting import statistics
from swarmd.experiment.reporting.curves import Array
from swarmd.experiment.reporting.hypotheses import (
    DIFFERENCE,
    EACH_NODE,
    LARGER,
    TO_LEVEL,
    Hypothesis,
    hypotheses,
)
from swarmd.experiment.reporting.measures import MEASURES, REWARDS, ROUND, paired_areas, rounds_to_level
from swarmd.experiment.reporting.results import Experiment, FinishedCell
from swarmd.experiment.reporting.statistics import Estimate

HOLDS, FAILS, OPEN, NOT_RUN = "holds", "does not hold", "not decided", "not run"
# Shares of the rounds at which a ratio is stated. Earlier in a run the sums hold few rewards.
HORIZONS = (0.25, 0.5, 0.75, 1.0)
# The share of its external rollouts that an arm may go without before the report says so. 2/6 went without 0.23, and a control that
# was starved without 0.61.
SHORT = 0.25


@dataclass(frozen=True)
class SeedPair:
    """Both arms' values with one seed."""

    seed: int
    a: float
    b: float


@dataclass(frozen=True)
class AtHorizon:
    """The estimate from the first `fraction` of the rounds alone."""

    fraction: float
    rounds: float
    estimate: Estimate


@dataclass(frozen=True)
class Verdict:
    """What came of a hypothesis. `rounds`: the horizon, over nodes and seeds the mean of the rounds that both arms did."""

    hypothesis: Hypothesis
    state: str
    reason: str
    estimate: Estimate | None = None
    seeds: tuple[SeedPair, ...] = ()
    rounds: float | None = None
    horizons: tuple[AtHorizon, ...] = ()
    nodes: tuple[tuple[str, Estimate], ...] = ()
    notes: tuple[str, ...] = field(default=())


def verdicts(experiment: Experiment) -> list[Verdict]:
    """Every verdict on every scenario of a folder; like nodes are always asked about."""
    names = ["alike", *(name for name in experiment.scenarios if name != "alike")]
    return [judge(experiment, h) for name in names for h in hypotheses(name, experiment.arms(name))]


def judge(experiment: Experiment, h: Hypothesis) -> Verdict:
    cells_a, cells_b = (experiment.of(h.scenario, arm) for arm in (h.arm, h.against))
    missing = [arm for arm, cells in ((h.arm, cells_a), (h.against, cells_b)) if not cells]
    if missing:
        return Verdict(h, NOT_RUN, f"no finished cell of {' or '.join(missing)}")
    seeds = sorted(set(cells_a) & set(cells_b))
    if not seeds:
        return Verdict(h, NOT_RUN, "the two arms have no seed in common")
    pairs = {seed: (cells_a[seed], cells_b[seed]) for seed in seeds}
    if h.statistic == EACH_NODE:
        return _each_node(h, pairs)
    if h.measure == TO_LEVEL:
        return _to_level(h, pairs)
    if h.measure in REWARDS:
        return _areas(h, pairs)
    measure = MEASURES[h.measure]
    both = [SeedPair(s, measure.mean(a), measure.mean(b)) for s, (a, b) in pairs.items()]
    found = tuple(pair for pair in both if not math.isnan(pair.a + pair.b))
    return _decided(h, found, len(pairs), rounds=_rounds(pairs))


def decide(h: Hypothesis, estimate: Estimate) -> tuple[str, str]:
    """The state that an estimate brings, and why. An interval that covers the bar decides nothing, nor do too few seeds."""
    if estimate.interval is None:
        return OPEN, (
            "one seed gives no interval"
            if estimate.num_seeds < 2
            else "both arms are zero: there is no ratio"
        )
    low, high = estimate.interval
    if low <= h.bar <= high:
        return OPEN, f"the interval covers {h.bar:g}"
    if estimate.num_seeds < h.seeds_min:
        return OPEN, f"{estimate.num_seeds} seeds, {h.seeds_min} were asked for"
    side = "above" if low > h.bar else "below"
    return (HOLDS if (low > h.bar) == (h.claim == LARGER) else FAILS), f"the interval is {side} {h.bar:g}"


def _decided(
    h: Hypothesis,
    found: tuple[SeedPair, ...],
    num_pairs: int,
    *,
    rounds: float | None,
    horizons: tuple[AtHorizon, ...] = (),
    notes: tuple[str, ...] = (),
) -> Verdict:
    if not found:
        return Verdict(h, NOT_RUN, "the records of these cells lack what it takes", rounds=rounds)
    if len(found) < num_pairs:
        notes = (*notes, f"{num_pairs - len(found)} seeds lack what it takes")
    estimate = _estimate(h, np.array([p.a for p in found]), np.array([p.b for p in found]))
    state, reason = decide(h, estimate)
    return Verdict(h, state, reason, estimate, found, rounds, horizons, notes=notes)


def _estimate(h: Hypothesis, a_S: Array, b_S: Array) -> Estimate:
    return (statistics.difference if h.statistic == DIFFERENCE else statistics.ratio)(a_S, b_S)


def _areas(h: Hypothesis, pairs: dict[int, tuple[FinishedCell, FinishedCell]]) -> Verdict:
    """A ratio of areas under a reward, at the end and at earlier horizons."""
    fractions_H = np.array(HORIZONS if h.axis == ROUND else [1.0])
    areas = {
        seed: found
        for seed, (a, b) in pairs.items()
        if (found := paired_areas(a, b, h.measure, h.axis, fractions_H)) is not None
    }
    rounds = _rounds(pairs)
    horizons = []
    if areas and h.axis == ROUND:
        a_SH, b_SH = (np.array([both[side] for both in areas.values()]) for side in (0, 1))
        for i, fraction in enumerate(fractions_H):
            estimate = _estimate(h, a_SH[:, i], b_SH[:, i])
            horizons.append(AtHorizon(float(fraction), fraction * rounds, estimate))
    found_pairs = tuple(SeedPair(seed, float(a_H[-1]), float(b_H[-1])) for seed, (a_H, b_H) in areas.items())
    notes = _starved(h, pairs) if h.axis == ROUND else ()
    return _decided(h, found_pairs, len(pairs), rounds=rounds, horizons=tuple(horizons), notes=notes)


def _starved(h: Hypothesis, pairs: dict[int, tuple[FinishedCell, FinishedCell]]) -> tuple[str, ...]:
    """A note for each arm that went without much of what it asked for: its ratio is one of missing rollouts, too."""
    notes = []
    for arm, cells in zip((h.arm, h.against), zip(*pairs.values(), strict=True), strict=True):
        used, short = (_mean_of(cells, name) for name in ("num_external", "shortfall"))
        if short > SHORT * (used + short):
            notes.append(
                f"{arm} found {used:.2f} of the {used + short:.2f} external rollouts a round that it asks for"
            )
    return tuple(notes)


def _mean_of(cells: Sequence[FinishedCell], name: str) -> float:
    found = [mean for cell in cells if not math.isnan(mean := MEASURES[name].mean(cell))]
    return float(np.mean(found)) if found else 0.0


def _rounds(pairs: dict[int, tuple[FinishedCell, FinishedCell]]) -> float:
    both = [
        min(len(x.round_R), len(y.round_R))
        for a, b in pairs.values()
        for x, y in zip(a.nodes, b.nodes, strict=False)
    ]
    return float(np.mean(both))


def _each_node(h: Hypothesis, pairs: dict[int, tuple[FinishedCell, FinishedCell]]) -> Verdict:
    """Every node by itself: the claim stands or falls with the node that does worst."""
    measure, names = MEASURES[h.measure], [node.spec.name for node in next(iter(pairs.values()))[0].nodes]
    both = {s: (measure.over_nodes(a), measure.over_nodes(b)) for s, (a, b) in pairs.items()}
    rows = [
        (s, a_N, b_N)
        for s, (a_N, b_N) in both.items()
        if len(a_N) == len(b_N) == len(names) and not np.isnan(a_N + b_N).any()
    ]
    if not rows:
        return Verdict(h, NOT_RUN, "the records of these cells lack what it takes")
    a_SN, b_SN = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    nodes = tuple((name, statistics.difference(a_SN[:, k], b_SN[:, k])) for k, name in enumerate(names))
    states = [decide(h, estimate)[0] for _, estimate in nodes]
    worst = min(range(len(nodes)), key=lambda k: (nodes[k][1].interval or (nodes[k][1].effect, 0.0))[0])
    num = {state: states.count(state) for state in (HOLDS, FAILS, OPEN)}
    state = FAILS if num[FAILS] else OPEN if num[OPEN] else HOLDS
    reason = (
        f"above {h.bar:g} for {num[HOLDS]} of {len(nodes)} nodes, below for {num[FAILS]}, not decided for {num[OPEN]};"
        f" the figures are those of the worst, {nodes[worst][0]}"
    )
    seeds = tuple(SeedPair(row[0], float(row[1][worst]), float(row[2][worst])) for row in rows)
    return Verdict(h, state, reason, nodes[worst][1], seeds, _rounds(pairs), nodes=nodes)


def _to_level(h: Hypothesis, pairs: dict[int, tuple[FinishedCell, FinishedCell]]) -> Verdict:
    """Rounds until a late joiner is level with the swarm. Where it never got there alone, the true ratio is smaller still."""
    late = {s: found for s, (a, b) in pairs.items() if (found := rounds_to_level(a, b)) is not None}
    pairs_found = tuple(
        SeedPair(s, times.a, times.b) for s, times in late.items() if times.a_reached or times.b_reached
    )
    notes = []
    if bounds := [s for s, times in late.items() if times.a_reached and not times.b_reached]:
        notes.append(f"alone it never got there with seed {listed(bounds)}: those ratios are upper bounds")
    if neither := [s for s, times in late.items() if not times.a_reached and not times.b_reached]:
        notes.append(f"neither got there with seed {listed(neither)}: left out")
    if neither and not pairs_found:
        return Verdict(h, NOT_RUN, "nobody got there, in the swarm or alone", rounds=_rounds(pairs))
    verdict = _decided(h, pairs_found, len(pairs) - len(neither), rounds=_rounds(pairs), notes=tuple(notes))
    never = [s for s, times in late.items() if times.b_reached and not times.a_reached]
    if never and verdict.state == HOLDS:
        verdict = replace(verdict, state=OPEN, reason="the joiner of the swarm did not always get there")
    if never:
        note = f"in the swarm it never got there with seed {listed(never)}: those ratios are lower bounds"
        verdict = replace(verdict, notes=(*verdict.notes, note))
    return verdict


def listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
