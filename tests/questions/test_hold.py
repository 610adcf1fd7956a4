"""The time for which a worker holds its place, as the system tells of the worker and of its reader."""

import io
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from swarmd.questions import hold
from swarmd.questions.hold import Hold

Told = dict[str, tuple[float, float]]
WORKER, READER = "/proc/7/schedstat", "/proc/thread-self/schedstat"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Seconds computed and waited, by file; a file that is not there cannot be opened."""
    files: Told = {WORKER: (0.0, 0.0), READER: (5.0, 3.0)}

    def opened(path: str) -> io.StringIO:
        if path not in files:
            raise FileNotFoundError(path)
        return io.StringIO(" ".join(str(int(seconds * 1e9)) for seconds in files[path]) + " 1\n")

    monkeypatch.setattr(hold, "open", opened, raising=False)
    return files


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Any]:
    now = [100.0]
    monkeypatch.setattr(hold, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_time_without_a_core_is_not_held(told: Told, passes: Callable[[float], Any]) -> None:
    one = Hold(7, math.inf, 10.0)
    passes(4.0)
    told[WORKER], told[READER] = (0.5, 1.5), (5.0, 4.0)
    assert one.held_s() == pytest.approx(1.5)


def test_a_worker_that_computes_holds_at_least_that_however_long_its_reader_waits(
    told: Told, passes: Callable[[float], Any]
) -> None:
    one = Hold(7, math.inf, 1.0)
    for _ in range(20):  # each computes while the other waits, and both are waited for
        passes(0.1)
        told[WORKER] = (told[WORKER][0] + 0.06, told[WORKER][1] + 0.04)
        told[READER] = (told[READER][0], told[READER][1] + 0.06)
    assert one.held_s() == pytest.approx(1.2)
    with pytest.raises(TimeoutError):
        one.until()


def test_a_worker_that_is_gone_counts_as_never_waiting(told: Told, passes: Callable[[float], Any]) -> None:
    one = Hold(7, math.inf, 1.0)
    del told[WORKER]
    passes(0.5)
    assert one.held_s() == pytest.approx(0.5)


def test_a_deadline_ends_a_hold_of_any_length(told: Told, passes: Callable[[float], Any]) -> None:
    one = Hold(7, time.monotonic(), math.inf)
    passes(math.inf)
    with pytest.raises(TimeoutError):
        one.until()
