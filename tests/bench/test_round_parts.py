"""The clock that takes a round apart: every moment is one part's, and a wait for the device is not the host's time."""

from collections import Counter

import pytest

from tests.bench.round_parts import Clock


class Machine:
    """A host that works for so long, and a device that is behind by what it was given."""

    def __init__(self) -> None:
        self.now_s, self.behind_s, self.num = 0.0, 0.0, 0

    def work(self, host_s: float, device_s: float = 0.0) -> None:
        self.now_s += host_s
        self.behind_s += device_s
        self.num += 1

    def synchronise(self) -> None:
        self.now_s, self.behind_s = self.now_s + self.behind_s, 0.0

    @property
    def clock(self) -> Clock:
        return Clock(self.synchronise, lambda: self.now_s, lambda: Counter(works=self.num))


def test_time_is_the_innermost_parts() -> None:
    machine = Machine()
    clock = machine.clock
    with clock.part("update"):
        machine.work(1.0)
        with clock.part("pack"):
            machine.work(2.0)
        machine.work(4.0)
    told = clock.read()
    assert (told["update"]["host"], told["pack"]["host"]) == (5.0, 2.0)


def test_the_device_is_waited_for_by_the_part_that_asked_it() -> None:
    machine = Machine()
    clock = machine.clock
    with clock.part("forward"):
        machine.work(1.0, device_s=8.0)
    with clock.part("statistics"):
        machine.work(2.0)
    told = clock.read()
    assert [(told[name]["host"], told[name]["waiting"]) for name in ("forward", "statistics")] == [
        (1, 8),
        (2, 0),
    ]


def test_counts_are_shared_out_as_time_is() -> None:
    machine = Machine()
    clock = machine.clock
    machine.work(1.0)
    with clock.part("forward"):
        machine.work(1.0)
        machine.work(1.0)
    assert clock.read()["forward"]["works"] == 2


class Step:
    def step(self) -> None:
        raise RuntimeError("no memory")


def test_a_part_that_fails_has_ended() -> None:
    machine, learner = Machine(), Step()
    clock = machine.clock
    clock.wrap(learner, "step", "optimizer")
    with clock.part("update"):
        with pytest.raises(RuntimeError):
            learner.step()
        machine.work(3.0)
    assert clock.read()["update"]["host"] == 3.0


def test_a_reading_begins_anew() -> None:
    machine = Machine()
    clock = machine.clock
    with clock.part("update"):
        machine.work(1.0)
    clock.read()
    assert clock.read() == {}
