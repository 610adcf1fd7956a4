"""The report's pictures: readable in grey and by the colour-blind, and the same bytes from the same numbers."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from swarmd.experiment.reporting.curves import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

# Okabe and Ito's colours for the colour-blind; with line style and marker no two of the first 21 arms look alike, even in grey.
_COLOURS = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = (
    "-",
    "--",
    "-.",
    (0, (1, 1.2)),
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
    (0, (8, 3)),
    (0, (3, 2)),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")
_SETTINGS: "dict[RcKeyType, str | float]" = {
    "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.alpha": 0.25, "grid.linewidth": 0.6, "legend.frameon": False, "figure.dpi": 110, "savefig.dpi": 110,
    "font.family": "DejaVu Sans", "path.simplify": True,
}  # fmt: skip
# Inches. Places are given outright: having them computed takes as long as drawing.
_PANEL_WIDTH, _PANEL_HEIGHT = 4.6, 3.3
_MARGIN_LEFT, _MARGIN_BOTTOM, _MARGIN = 0.65, 0.5, 0.15


@dataclass(frozen=True)
class Line:
    """One arm in one panel: the mean over seeds with its band, at x."""

    arm: str
    x_P: Array
    y_P: Array
    low_P: Array
    high_P: Array


@dataclass(frozen=True)
class Panel:
    """One measure: its lines, and what its axes say."""

    x: str
    y: str
    lines: Sequence[Line]
    top: float | None = None


class Style(NamedTuple):
    """How a line is drawn, by the names of matplotlib."""

    color: str
    linestyle: str | tuple[int, tuple[float, ...]]
    marker: str


class Styles:
    """A colour, a line style and a marker for each arm, the same in every picture of a report."""

    def __init__(self, arms: Sequence[str]) -> None:
        self._numbers = {arm: number for number, arm in enumerate(arms)}

    def of(self, arm: str) -> Style:
        n = self._numbers[arm]
        dashes = _DASHES[(n + 2 * (n // len(_COLOURS))) % len(_DASHES)]
        return Style(_COLOURS[n % len(_COLOURS)], dashes, _MARKERS[n % len(_MARKERS)])


def draw_panels(path: Path, panels: Sequence[Panel], styles: Styles) -> None:
    """Panels side by side, up to three in a row, with one legend below, written to `path` as a PNG."""
    from matplotlib.lines import Line2D

    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    arms = list(dict.fromkeys(line.arm for panel in panels for line in panel.lines))
    width = _PANEL_WIDTH * columns
    in_a_row = max(1, int(width / (0.8 + 0.085 * max(map(len, arms), default=1))))
    legend_height = 0.15 + 0.2 * math.ceil(len(arms) / in_a_row)
    with _figure(path, (width, _PANEL_HEIGHT * rows + legend_height)) as figure:
        for k, panel in enumerate(panels):
            row, column = divmod(k, columns)
            left = _PANEL_WIDTH * column + _MARGIN_LEFT
            bottom = legend_height + _PANEL_HEIGHT * (rows - 1 - row) + _MARGIN_BOTTOM
            size = _PANEL_WIDTH - _MARGIN_LEFT - _MARGIN, _PANEL_HEIGHT - _MARGIN_BOTTOM - _MARGIN
            _draw(_axes(figure, left, bottom, *size), panel, styles)
        handles = [
            Line2D([], [], **styles.of(arm)._asdict(), linewidth=1.4, markersize=5, label=_plain(arm))
            for arm in arms
        ]
        if handles:
            figure.legend(handles=handles, loc="lower center", ncols=min(in_a_row, len(arms)))


def _axes(figure: "Figure", left: float, bottom: float, width: float, height: float) -> "Axes":
    """Axes at a place in inches from the lower left."""
    whole_x, whole_y = figure.get_size_inches()
    return figure.add_axes((left / whole_x, bottom / whole_y, width / whole_x, height / whole_y))


def _draw(axes: "Axes", panel: Panel, styles: Styles) -> None:
    for line in panel.lines:
        style = styles.of(line.arm)
        every = max(1, len(line.x_P) // 6)
        axes.fill_between(line.x_P, line.low_P, line.high_P, color=style.color, alpha=0.1, linewidth=0)
        axes.plot(line.x_P, line.y_P, **style._asdict(), linewidth=1.4, markersize=4, markevery=every)
    axes.locator_params(nbins=6)
    axes.set_xlabel(_plain(panel.x))
    axes.set_ylabel(_plain(panel.y))
    if panel.lines:
        axes.set_ylim(0, panel.top)


@contextmanager
def _figure(path: Path, size: tuple[float, float]) -> Iterator["Figure"]:
    """A figure that is written when the block ends, without date or tool in it, so that a second report changes nothing."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=size)
        FigureCanvasAgg(figure)
        yield figure
        figure.savefig(path, metadata={"Software": None})


def _plain(text: str) -> str:
    """Text that is drawn as it is: a dollar sign would begin a formula, a leading underscore hides a legend's entry."""
    return text.replace("$", r"\$").replace("_", " ")
