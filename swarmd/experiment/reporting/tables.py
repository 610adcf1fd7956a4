"""The tables of one scenario: rewards, cost, steadiness, signal, and every seed's own figures."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from swarmd.experiment.reporting import learned, statistics
from swarmd.experiment.reporting.curves import Array
from swarmd.experiment.reporting.document import Block, Heading, Table, Text
from swarmd.experiment.reporting.hypotheses import NAMED
from swarmd.experiment.reporting.measures import MEASURES
from swarmd.experiment.reporting.results import Experiment, FinishedCell, dataset_names

_REWARDS = (
    "fresh_cumulative", "fresh_final", "training_cumulative", "training_final",
    "held_out_cumulative", "held_out_first", "held_out_final",
)  # fmt: skip
_COSTS = ("rounds", "generated_tokens", "trained_tokens", "busy_seconds")
_DROPS = ("held_out_drop", "held_out_drop_errors", "held_out_forgotten", "fresh_drop")
_DATASETS = ("dataset_drop", "dataset_drop_worst", "dataset_forgotten", "dataset_forgotten_worst")
_SIGNAL = ("informative_own", "informative_pool", "num_external", "shortfall", "external_age_s")
_BY_SEED = (
    "fresh_cumulative",
    "training_cumulative",
    "held_out_cumulative",
    "held_out_final",
    "held_out_drop",
)
_REWARDS_TEXT = """
Means over nodes, then over seeds, with 95 % t-intervals over seeds. Cumulative: summed over rounds (held-out: the area under
its evaluations). Final: the last tenth of the rounds, or the last evaluation. The total is the paper's: fresh reward summed
over nodes and rounds. Evaluation ±: 1.96 standard errors of one node's last evaluation over its questions, which are the same
for all, so that more nodes and seeds do not make it smaller.
"""
_DROPS_TEXT = """
Largest drop: how far a node's reward falls below its own best so far, at worst; mean over nodes, and the worst node. Drops of
up to about two standard errors may be the evaluation's noise. Spread: over nodes, of the final held-out reward.
"""


def scenario_tables(experiment: Experiment, scenario: str) -> list[Block]:
    order = {arm: number for number, arm in enumerate(NAMED)}
    arms = sorted(experiment.arms(scenario), key=lambda arm: (order.get(arm, len(order)), arm))
    cells = {arm: list(experiment.of(scenario, arm).values()) for arm in arms}
    return [
        Heading(3, "Rewards"),
        Text(_REWARDS_TEXT),
        _table(cells, _REWARDS, {"fresh, total": _total, "evaluation ±": _evaluation}),
        Heading(3, "Cost of a node"),
        _table(cells, _COSTS, {}),
        Heading(3, "Oscillation, forgetting and spread"),
        Text(_DROPS_TEXT),
        _table(
            cells, _DROPS,
            {
                "worst node, held-out": lambda cell: _reduced(cell, "held_out_drop", np.max),
                "worst node, fresh": lambda cell: _reduced(cell, "fresh_drop", np.max),
                "standard deviation": lambda cell: _reduced(cell, "held_out_final", _deviation),
                "least": lambda cell: _reduced(cell, "held_out_final", np.min),
                "largest": lambda cell: _reduced(cell, "held_out_final", np.max),
            },
        ),
        *_datasets(cells),
        Heading(3, "Signal"),
        Text("Informative: not all rewards of a rollout are equal. Age: from creation to use, mean over the externals used."),
        _table(cells, _SIGNAL, {}),
        Heading(3, "Every seed"),
        _by_seed(cells),
        *_by_node(cells),
    ]  # fmt: skip


Extra = Callable[[FinishedCell], float]


def _table(cells: dict[str, list[FinishedCell]], names: Sequence[str], extra: dict[str, Extra]) -> Table:
    """One line an arm; columns that no arm has are left out."""
    columns: list[tuple[str, list[str]]] = []
    for name in names:
        measure = MEASURES[name]
        values = [[measure.mean(cell) for cell in found] for found in cells.values()]
        columns.append((measure.title, [with_interval(of_arm, measure.digits) for of_arm in values]))
    for title, of in extra.items():
        columns.append((title, [mean_of([of(cell) for cell in found], 3) for found in cells.values()]))
    columns = [(title, column) for title, column in columns if any(value != "–" for value in column)]
    rows = [
        [arm, str(len(found)), *(column[k] for _, column in columns)]
        for k, (arm, found) in enumerate(cells.items())
    ]
    return Table(["arm", "seeds", *(title for title, _ in columns)], rows)


def _datasets(cells: dict[str, list[FinishedCell]]) -> list[Block]:
    """Forgetting by dataset, and where each arm ended; nothing if evaluations do not tell datasets apart."""
    names = dataset_names(cells)
    if not names:
        return []
    rows = []
    for arm, found in cells.items():
        tests = [
            node.evaluations.by_dataset
            for cell in found
            for node in cell.nodes
            if node.evaluations is not None
        ]
        rows.append(
            [arm, *(mean_of([float(by[name][-1]) for by in tests if name in by], 3) for name in names)]
        )
    return [
        Heading(3, "By dataset"),
        Text("Drops as above, of each dataset's held-out reward by itself; with fewer questions each, they are noisier."),
        _table(cells, _DATASETS, {}),
        Text("Final held-out reward of each dataset, mean over nodes and seeds:"),
        Table(["arm", *names], rows),
    ]  # fmt: skip


def _by_seed(cells: dict[str, list[FinishedCell]]) -> Table:
    rows = []
    for arm, found in cells.items():
        for cell in found:
            values = [mean_of([MEASURES[name].mean(cell)], 3) for name in _BY_SEED]
            rows.append([arm, str(cell.spec.seed), *values])
    return Table(["arm", "seed", *(MEASURES[name].title for name in _BY_SEED)], rows)


def _by_node(cells: dict[str, list[FinishedCell]]) -> list[Block]:
    """Every node's own figures, where there is a single cell."""
    found = [cell for of_arm in cells.values() for cell in of_arm]
    return [Heading(3, "Every node"), learned.table(found[0])] if len(found) == 1 else []


def with_interval(values: Sequence[float], digits: int) -> str:
    """The mean of the seeds that have a value, with its t-interval if there are two or more."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "–"
    estimate = statistics.centre(np.array(known))
    text = f"{estimate.effect:,.{digits}f}"
    if estimate.t is None:
        return text
    return f"{text} [{estimate.t[0]:,.{digits}f}, {estimate.t[1]:,.{digits}f}]"


def mean_of(values: Sequence[float], digits: int) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{np.mean(known):,.{digits}f}" if known else "–"


def _reduced(cell: FinishedCell, name: str, reduce: Callable[[Array], float]) -> float:
    return float(reduce(MEASURES[name].over_nodes(cell)))


def _deviation(values_N: Array) -> float:
    return float(np.std(values_N, ddof=min(1, len(values_N) - 1)))


def _total(cell: FinishedCell) -> float:
    return _reduced(cell, "fresh_cumulative", np.sum)


def _evaluation(cell: FinishedCell) -> float:
    return 1.96 * MEASURES["held_out_error"].mean(cell)
