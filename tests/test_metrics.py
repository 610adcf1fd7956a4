"""Metrics: closed labels that exist from the start, phases measured by the clock given, totals that only grow."""

import re

import pytest

from swarmd.metrics import CounterMirror, Metrics
from swarmd.metrics.labels import PHASES, SKIP_REASONS


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"swarmd_{name}", labels)


def seconds(metrics: Metrics) -> dict[str, float | None]:
    metrics.render()
    return {phase: value(metrics, "phase_seconds_total", phase=phase) for phase in PHASES}


def test_time_belongs_to_the_phase_in_which_it_passed() -> None:
    clock = Clock()
    metrics = Metrics(monotonic_s=clock)
    for phase, lasts_s in (("wait", 3.0), ("update", 5.0), ("wait", 2.0), ("idle", 0.0)):
        metrics.set_phase(phase)
        clock.now_s += lasts_s
    assert seconds(metrics) == {"starting": 0.0, "idle": 0.0, "wait": 5.0, "update": 5.0, "evaluate": 0.0}


def test_a_phase_that_lasts_is_seen_growing() -> None:
    clock = Clock()
    metrics = Metrics(monotonic_s=clock)
    metrics.set_phase("update")
    clock.now_s += 60
    assert seconds(metrics)["update"] == 60
    clock.now_s += 60
    assert seconds(metrics)["update"] == 120


@pytest.mark.parametrize("phase", PHASES)
def test_exactly_one_phase_is_on(phase: str) -> None:
    metrics = Metrics()
    metrics.set_phase("evaluate")
    metrics.set_phase(phase)
    assert {p: value(metrics, "phase", phase=p) for p in PHASES} == {p: float(p == phase) for p in PHASES}


def test_series_exist_before_anything_happened() -> None:
    metrics = Metrics(["chain_sum"], ["signature"])
    assert [value(metrics, "train_skipped_steps_total", reason=r) for r in SKIP_REASONS] == [0] * len(
        SKIP_REASONS
    )
    assert value(metrics, "checkpoint_saves_total", result="failed") == 0
    assert value(metrics, "gossip_rejects_total", reason="signature") == 0
    assert value(metrics, "train_samples_total", origin="external", task="chain_sum") == 0
    assert value(metrics, "buffer_discarded_total", reason="disk_full") == 0


def test_two_nodes_in_one_process_do_not_share_a_registry() -> None:
    one, other = Metrics(), Metrics()
    one.rounds.inc()
    assert value(other, "train_rounds_total") == 0


def test_every_metric_says_what_it_is() -> None:
    helps = re.findall(r"^# HELP (\S+) (.*)$", Metrics().render().decode(), re.M)
    assert len(helps) > 40
    assert all(text.strip().endswith(".") for _, text in helps)


def test_a_child_that_began_anew_does_not_take_back_what_was_counted() -> None:
    mirror = CounterMirror()
    assert mirror.growth({"a": 5}) == {"a": 5}
    assert mirror.growth({"a": 7, "b": 1}) == {"a": 2, "b": 1}
    assert mirror.growth({"a": 3, "b": 1}) == {"a": 3, "b": 0}
