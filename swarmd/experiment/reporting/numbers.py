"""results.json: every number of the report's tables, verdicts and pictures."""

from dataclasses import asdict

import numpy as np

import swarmd
from swarmd.experiment.reporting import statistics
from swarmd.experiment.reporting.hypotheses import SEEDS_MIN, SEEDS_MIN_BEST
from swarmd.experiment.reporting.measures import MEASURES
from swarmd.experiment.reporting.plots import Line, Panel
from swarmd.experiment.reporting.results import Experiment, FinishedCell
from swarmd.experiment.reporting.verdicts import Verdict


def document_of(
    experiment: Experiment, verdicts: list[Verdict], drawn: dict[str, list[Panel]]
) -> dict[str, object]:
    return {
        "format": 1,
        "written_by": swarmd.__version__,
        "experiment": experiment.facts,
        "statistics": {
            "confidence": statistics.CONFIDENCE,
            "resamples": statistics.RESAMPLES,
            "resample_seed": statistics.RESAMPLE_SEED,
            "seeds_min": SEEDS_MIN,
            "seeds_min_beyond_the_paper": SEEDS_MIN_BEST,
        },
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "cells": [_cell(cell) for cell in experiment.cells],
        "left_out": [asdict(gap) for gap in experiment.left_out],
        "pictures": {name: [_panel(panel) for panel in panels] for name, panels in drawn.items()},
    }


def _verdict(verdict: Verdict) -> dict[str, object]:
    return {
        **asdict(verdict.hypothesis),
        "question": verdict.hypothesis.question,
        "state": verdict.state,
        "reason": verdict.reason,
        "notes": verdict.notes,
        "rounds": verdict.rounds,
        "estimate": asdict(verdict.estimate) if verdict.estimate else None,
        "seeds": [asdict(pair) for pair in verdict.seeds],
        "horizons": [asdict(at) for at in verdict.horizons],
        "nodes": [{"node": name, **asdict(estimate)} for name, estimate in verdict.nodes],
    }


def _cell(cell: FinishedCell) -> dict[str, object]:
    values = {name: measure.over_nodes(cell) for name, measure in MEASURES.items()}
    known = {name: values_N for name, values_N in values.items() if not np.isnan(values_N).any()}
    nodes = [
        {
            **_fields(node, "name", "model", "speed", "datasets", "joins_at_round"),
            **{name: float(values_N[k]) for name, values_N in known.items()},
        }
        for k, node in enumerate(cell.spec.nodes)
    ]
    return {
        **_fields(cell.spec, "scenario", "arm", "seed", "settings", "rounds", "seconds"),
        "nodes": nodes,
        "mean_over_nodes": {name: float(np.mean(values_N)) for name, values_N in known.items()},
    }


def _fields(of: object, *names: str) -> dict[str, object]:
    return {name: getattr(of, name) for name in names}


def _panel(panel: Panel) -> dict[str, object]:
    return {"x": panel.x, "y": panel.y, "lines": [_line(line) for line in panel.lines]}


def _line(line: Line) -> dict[str, object]:
    # six digits are more than a picture shows, and the same on every machine
    values = {"x": line.x_P, "y": line.y_P, "low": line.low_P, "high": line.high_P}
    return {
        "arm": line.arm,
        **{name: [float(f"{value:.6g}") for value in values_P] for name, values_P in values.items()},
    }
