"""What the report draws of each scenario: rewards by kind, datasets, late joiners, specialised nodes. `plots` does the drawing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from swarmd.experiment.reporting.curves import Array, smoothed
from swarmd.experiment.reporting.document import Figure
from swarmd.experiment.reporting.hypotheses import (
    CONTROLS,
    NAMED,
    PAPER_BEST,
    PUBLISHED,
    SILO,
)
from swarmd.experiment.reporting.measures import (
    FRESH,
    GENERATED,
    HELD_OUT,
    REWARDS,
    ROUND,
    costs,
    foreign_curve,
)
from swarmd.experiment.reporting.plots import Line, Panel, Styles, draw_panels
from swarmd.experiment.reporting.results import (
    Evaluations,
    Experiment,
    FinishedCell,
    FinishedNode,
    dataset_names,
)

# Arms in one picture beside the two that all are compared with: more lines than seven cannot be followed.
ARMS_MAX = 5
# Datasets in one picture: the paper has nine.
DATASETS_MAX = 9
_POINTS = 121
_BAND = "Lines are means over seeds, bands reach from the lowest to the highest seed."
_ROLLING = "Fresh and training-set reward are means over the last rounds."

# A node's values at shares of its rounds, both rising in length alike.
Series = Callable[[FinishedNode], tuple[Array, Array] | None]


def scenario_figures(experiment: Experiment, scenario: str, directory: Path, prefix: str) -> list[Figure]:
    """Draws a scenario into `directory`; the blocks that show it."""
    styles = Styles(_ordered(experiment.arms(scenario)))
    figures: list[Figure] = []

    def add(name: str, panels: list[Panel], caption: str) -> None:
        panels = [panel for panel in panels if panel.lines]
        if panels:
            draw_panels(directory / f"{prefix}-{name}.png", panels, styles)
            figures.append(Figure(f"{prefix}-{name}", caption))

    for name, arms in groups(experiment.arms(scenario)):
        cells = {arm: list(experiment.of(scenario, arm).values()) for arm in arms}
        add(f"{name}-rewards", reward_panels(cells), f"Rewards apart by kind ({name}). {_ROLLING} {_BAND}")
        add(f"{name}-datasets", dataset_panels(cells), f"Held-out reward of each dataset ({name}). {_BAND}")
        add(f"{name}-special", special_panels(cells), f"What this scenario is about ({name}). {_BAND}")
    return figures


def groups(arms: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Name and arms of each picture: the paper's with controls, then what else there is."""
    paper = [arm for arm in (SILO, *PUBLISHED, *CONTROLS) if arm in arms]
    found = [("paper", paper)] if paper else []
    references = [arm for arm in (PAPER_BEST, SILO) if arm in arms]
    others = [arm for arm in arms if arm not in NAMED]
    for k in range(0, len(others), ARMS_MAX):
        number = f"-{k // ARMS_MAX + 1}" if len(others) > ARMS_MAX else ""
        found.append((f"others{number}", [*references, *others[k : k + ARMS_MAX]]))
    return found


def _ordered(arms: Sequence[str]) -> list[str]:
    """All arms, the well-known ones first: their looks stay the same from report to report."""
    return [*[arm for arm in NAMED if arm in arms], *[arm for arm in arms if arm not in NAMED]]


def reward_panels(cells: dict[str, list[FinishedCell]]) -> list[Panel]:
    def panel(
        title: str,
        series: Series,
        axis: str = ROUND,
        over: Callable[..., Array] = np.mean,
        top: float | None = None,
    ) -> Panel:
        x = "round" if axis == ROUND else f"{axis}s of a node"
        return Panel(x, title, _lines(cells, series, axis, over), top=top)

    return [
        panel(REWARDS[FRESH], _rolling("reward_own")),
        panel("training-set reward", _rolling("reward_training")),
        panel(REWARDS[HELD_OUT], _held_out),
        panel(REWARDS[HELD_OUT], _held_out, GENERATED),
        panel("informative share of own rollouts", _rolling_share("num_own_informative", "num_own"), top=1.0),
        panel("held-out: deviation over nodes", _held_out, over=_spread),
    ]


def dataset_panels(cells: dict[str, list[FinishedCell]]) -> list[Panel]:
    names = dataset_names(cells)
    return [Panel("round", name, _lines(cells, _dataset(name))) for name in names[:DATASETS_MAX]]


def special_panels(cells: dict[str, list[FinishedCell]]) -> list[Panel]:
    """Late joiners by their own rounds, specialised nodes on what they never generated; nothing where there are none."""
    late = {
        arm: [
            replace(cell, nodes=tuple(n for n in cell.nodes if n.spec.joins_at_round > 0)) for cell in found
        ]
        for arm, found in cells.items()
    }
    return [
        Panel("own round of a late joiner", "held-out reward of late joiners", _lines(late, _held_out)),
        Panel("round", "held-out reward, datasets never generated", _lines(cells, _foreign)),
    ]


def _lines(
    cells: dict[str, list[FinishedCell]],
    series: Series,
    axis: str = ROUND,
    over: Callable[..., Array] = np.mean,
) -> list[Line]:
    lines = []
    for arm, found in cells.items():
        curves = [curve for cell in found if (curve := _over_nodes(cell, series, axis, over)) is not None]
        if (line := _band(arm, curves)) is not None:
            lines.append(line)
    return lines


def _over_nodes(
    cell: FinishedCell, series: Series, axis: str, over: Callable[..., Array]
) -> tuple[Array, Array] | None:
    """One curve of a cell: its nodes side by side at equal shares of their own rounds, so that slow ones count throughout."""
    parts, spent = [], []
    for node in cell.nodes:
        costs_R = costs(node, axis)
        if (found := series(node)) is None or np.isnan(found[1]).any() or np.isnan(costs_R).any():
            return None
        parts.append(found)
        spent.append(np.concatenate(([0.0], np.cumsum(costs_R))))
    first = max((share_E[0] for share_E, _ in parts), default=1.0)
    if not first < 1.0 or (over is _spread and len(parts) < 2):
        return None
    share_P = np.linspace(first, 1.0, _POINTS)
    y_NP = np.array([np.interp(share_P, *part) for part in parts])
    x_NP = np.array([np.interp(share_P, np.linspace(0, 1, len(spent_R)), spent_R) for spent_R in spent])
    # rounds are those of the node that did most; of tokens and seconds the nodes' mean is taken
    return x_NP.max(0) if axis == ROUND else x_NP.mean(0), over(y_NP, axis=0)


def _spread(y_NP: Array, axis: int) -> Array:
    return np.asarray(np.std(y_NP, axis=axis, ddof=1))


def _band(arm: str, curves: Sequence[tuple[Array, Array]]) -> Line | None:
    """Mean, least and largest over seeds, where all of them are defined."""
    low = max((x_P[0] for x_P, _ in curves), default=0.0)
    high = min((x_P[-1] for x_P, _ in curves), default=0.0)
    if not high > low:
        return None
    x_P = np.linspace(low, high, _POINTS)
    y_SP = np.array([np.interp(x_P, x, y) for x, y in curves])
    return Line(arm, x_P, y_SP.mean(0), y_SP.min(0), y_SP.max(0))


def _rolling(name: str) -> Series:
    return lambda node: _at_ends(node.column(name))


def _rolling_share(part: str, whole: str) -> Series:
    def series(node: FinishedNode) -> tuple[Array, Array] | None:
        whole_R = node.column(whole)
        return _at_ends(node.column(part) / whole_R) if np.all(whole_R > 0) else None

    return series


def _at_ends(values_R: Array) -> tuple[Array, Array]:
    """Rolling means, each at the last of its rounds."""
    num, means_E = len(values_R), smoothed(values_R)
    return np.arange(num - len(means_E) + 1, num + 1) / num, means_E


def _tested(of: Callable[[FinishedNode, Evaluations], Array | None]) -> Series:
    """What evaluations measured."""

    def series(node: FinishedNode) -> tuple[Array, Array] | None:
        found = node.evaluations
        if found is None or (values_E := of(node, found)) is None:
            return None
        return found.round_E / node.round_R[-1], values_E

    return series


_held_out = _tested(lambda node, found: found.mean_E)
_foreign = _tested(lambda node, found: foreign_curve(node))


def _dataset(name: str) -> Series:
    return _tested(lambda node, found: found.by_dataset.get(name))
