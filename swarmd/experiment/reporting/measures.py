"""What is measured of a node, of a cell and of a pair of cells: rewards apart by kind, each over rounds, tokens or seconds."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from swarmd.experiment.reporting.curves import (
    Array,
    Curve,
    crossing,
    drop_from_best,
    final,
    largest_drop,
    shared_areas,
    smoothed,
)
from swarmd.experiment.reporting.results import FinishedCell, FinishedNode

# The three rewards, kept apart.
FRESH, TRAINING, HELD_OUT = "fresh", "training", "held-out"
REWARDS = {FRESH: "fresh own reward", TRAINING: "training-set reward", HELD_OUT: "held-out reward"}
# What a curve runs over.
ROUND, GENERATED, TRAINED, SECONDS = "round", "generated token", "trained token", "busy second"
# Of the swarm's final held-out reward: what a late joiner has to reach. All of it would be reached by luck of one evaluation.
LEVEL_SHARE = 0.9


def costs(node: FinishedNode, axis: str) -> Array:
    """What each round of a node cost on an axis; NaN where the records do not say."""
    if axis == ROUND:
        return np.ones(len(node.round_R))
    names = {
        GENERATED: ("num_generated_tokens",),
        TRAINED: ("num_tokens_local", "num_tokens_external"),
        SECONDS: ("seconds_generate", "seconds_update"),
    }[axis]
    return np.asarray(np.sum([node.column(name) for name in names], axis=0))


def curve(node: FinishedNode, reward: str, axis: str) -> Curve | None:
    """One reward of one node over an axis; None where it was not recorded, or not often enough for a curve."""
    spent_R, found = np.cumsum(costs(node, axis)), node.evaluations
    if reward != HELD_OUT:
        x_E, y_E = spent_R, node.column({FRESH: "reward_own", TRAINING: "reward_training"}[reward])
    elif found is not None and len(found.round_E) > 1:
        rounds_R, spent_R = np.concatenate(([0.0], node.round_R)), np.concatenate(([0.0], spent_R))
        x_E, y_E = np.interp(found.round_E, rounds_R, spent_R), found.mean_E
    else:
        return None
    return None if np.isnan(x_E + y_E).any() else Curve(x_E, y_E, step=reward != HELD_OUT)


def paired_areas(
    a: FinishedCell, b: FinishedCell, reward: str, axis: str, fractions_H: Array
) -> tuple[Array, Array] | None:
    """Areas under a reward in two cells, up to fractions of what both reach, as means over their nodes, which are paired.

    Over rounds they are sums of rewards; over any other axis they are divided by its length. None where a node's curve is missing
    or the cells have not the same number of nodes.
    """
    if len(a.nodes) != len(b.nodes):
        return None
    found = []
    for node_a, node_b in zip(a.nodes, b.nodes, strict=True):
        curves = curve(node_a, reward, axis), curve(node_b, reward, axis)
        if curves[0] is None or curves[1] is None:
            return None
        areas = shared_areas(curves[0], curves[1], fractions_H, mean=axis != ROUND)
        if areas is None:
            return None
        found.append(areas)
    return np.mean([areas[0] for areas in found], axis=0), np.mean([areas[1] for areas in found], axis=0)


@dataclass(frozen=True)
class Measure:
    """A number of one node (NaN where it is not known), what it is called in a table, and how many digits of it mean anything."""

    title: str
    of: Callable[[FinishedNode], float]
    digits: int = 3

    def over_nodes(self, cell: FinishedCell) -> Array:
        return np.array([self.of(node) for node in cell.nodes])

    def mean(self, cell: FinishedCell) -> float:
        """The mean over nodes; NaN where one of them is not known."""
        return float(np.mean(self.over_nodes(cell)))


def _column(name: str, reduce: Callable[[Array], float]) -> Callable[[FinishedNode], float]:
    return lambda node: float(reduce(node.column(name)))


def _held_out(reduce: Callable[[Array], float]) -> Callable[[FinishedNode], float]:
    return lambda node: math.nan if node.evaluations is None else float(reduce(node.evaluations.mean_E))


def _held_out_cumulative(node: FinishedNode) -> float:
    found = curve(node, HELD_OUT, ROUND)
    return math.nan if found is None else float(found.areas(found.first, np.array([found.last]))[0])


def _spent(axis: str) -> Callable[[FinishedNode], float]:
    return lambda node: float(np.sum(costs(node, axis)))


def _evaluation_error(node: FinishedNode) -> float:
    return math.nan if node.evaluations is None else float(node.evaluations.standard_error_E[-1])


def _drop_in_errors(node: FinishedNode) -> float:
    """The largest drop over the standard error of a difference of two evaluations: up to about 2 it may be their own noise."""
    if node.evaluations is None:
        return math.nan
    error = math.sqrt(2) * float(np.mean(node.evaluations.standard_error_E))
    return largest_drop(node.evaluations.mean_E) / error if error > 0 else math.nan


def _datasets(
    each: Callable[[Array], float], over: Callable[[list[float]], float]
) -> Callable[[FinishedNode], float]:
    def of(node: FinishedNode) -> float:
        found = node.evaluations.by_dataset if node.evaluations is not None else {}
        return over([each(values_E) for values_E in found.values()]) if found else math.nan

    return of


def _share(part: str, whole: str) -> Callable[[FinishedNode], float]:
    def of(node: FinishedNode) -> float:
        num = node.column(whole).sum()
        return float(node.column(part).sum() / num) if num else math.nan

    return of


def _informative_own(node: FinishedNode) -> float:
    generated = _share("num_generated_informative", "num_generated")(node)
    return _share("num_own_informative", "num_own")(node) if math.isnan(generated) else generated


def _age(node: FinishedNode) -> float:
    ages_R = node.columns["external_age_s"]
    return math.nan if np.isnan(ages_R).all() else float(np.nanmean(ages_R))


def foreign_curve(node: FinishedNode) -> Array | None:
    """Held-out reward on the datasets that this node never generated, by evaluation; None if there is none, or all count as one."""
    found = node.evaluations
    if found is None or not node.spec.datasets:
        return None
    foreign = [name for name in found.by_dataset if name not in node.spec.datasets]
    weights = [found.dataset_sizes[name] for name in foreign]
    if not sum(weights):
        return None
    return np.asarray(np.average([found.by_dataset[name] for name in foreign], axis=0, weights=weights))


def _foreign_final(node: FinishedNode) -> float:
    values_E = foreign_curve(node)
    return math.nan if values_E is None else float(values_E[-1])


MEASURES = {
    "fresh_cumulative": Measure("fresh, cumulative", _column("reward_own", np.sum), 2),
    "fresh_final": Measure("fresh, final", _column("reward_own", final)),
    "training_cumulative": Measure("training set, cumulative", _column("reward_training", np.sum), 2),
    "training_final": Measure("training set, final", _column("reward_training", final)),
    "held_out_cumulative": Measure("held-out, cumulative", _held_out_cumulative, 2),
    "held_out_first": Measure("held-out, first", _held_out(lambda values_E: float(values_E[0])), 4),
    "held_out_final": Measure("held-out, final", _held_out(lambda values_E: float(values_E[-1]))),
    "held_out_error": Measure("standard error of the final evaluation", _evaluation_error),
    "held_out_drop": Measure("largest drop, held-out", _held_out(largest_drop)),
    "held_out_drop_errors": Measure("the same in standard errors", _drop_in_errors, 1),
    "held_out_forgotten": Measure("best less final, held-out", _held_out(drop_from_best)),
    "fresh_drop": Measure("largest drop, fresh (smoothed)", _column("reward_own", lambda v: largest_drop(smoothed(v)))),
    "dataset_drop": Measure("largest drop, mean of datasets", _datasets(largest_drop, lambda v: float(np.mean(v)))),
    "dataset_drop_worst": Measure("largest drop, worst dataset", _datasets(largest_drop, max)),
    "dataset_forgotten": Measure("best less final, mean of datasets", _datasets(drop_from_best, lambda v: float(np.mean(v)))),
    "dataset_forgotten_worst": Measure("best less final, worst dataset", _datasets(drop_from_best, max)),
    "foreign_held_out": Measure("held-out, final, datasets never generated", _foreign_final),
    "informative_own": Measure("informative, of own generated", _informative_own),
    "informative_pool": Measure("informative, of external held", _share("num_pool_informative", "num_pool")),
    "num_external": Measure("externals a round", _column("num_external", np.mean), 2),
    "shortfall": Measure("shortfall a round", _column("shortfall", np.mean), 2),
    "external_age_s": Measure("age of externals (s)", _age, 1),
    "rounds": Measure("rounds", _spent(ROUND), 0),
    "generated_tokens": Measure("generated tokens", _spent(GENERATED), 0),
    "trained_tokens": Measure("trained tokens", _spent(TRAINED), 0),
    "busy_seconds": Measure("busy seconds", _spent(SECONDS), 1),
}  # fmt: skip


@dataclass(frozen=True)
class Late:
    """Rounds that late joiners took to a level in one arm (`a`) and in the other (`b`); a bound where it was not reached."""

    a: float
    b: float
    a_reached: bool
    b_reached: bool


def rounds_to_level(a: FinishedCell, b: FinishedCell) -> Late | None:
    """Own rounds until a late joiner's held-out reward is at `LEVEL_SHARE` of the others' final one in `a`: in `a` and in `b`.

    Means over the late joiners. One that never gets there counts with all its rounds. None without late joiners or evaluations.
    """
    if len(a.nodes) != len(b.nodes):
        return None
    curves = [[curve(node, HELD_OUT, ROUND) for node in cell.nodes] for cell in (a, b)]
    late = [k for k, node in enumerate(a.nodes) if node.spec.joins_at_round > 0]
    finals = [c.y_E[-1] for k, c in enumerate(curves[0]) if c is not None and k not in late]
    if not late or not finals:
        return None
    level = LEVEL_SHARE * float(np.mean(finals))
    means, reached = [], []
    for found in curves:
        chosen = [c for k in late if (c := found[k]) is not None]
        if len(chosen) < len(late):
            return None
        crossings = [crossing(c, level) for c in chosen]
        reached.append(None not in crossings)
        means.append(
            float(np.mean([c.last if at is None else at for c, at in zip(chosen, crossings, strict=True)]))
        )
    return Late(means[0], means[1], reached[0], reached[1])
