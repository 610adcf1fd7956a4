"""The closed set of names."""

import pytest
import trio

from swarmd.swarm.hardening.counters import Counters, contained


def test_every_name_is_there_from_the_start():
    assert dict(Counters(["a", "b"])) == {"a": 0, "b": 0}


def test_a_misspelt_name_is_an_error():
    with pytest.raises(KeyError):
        Counters(["a"]).count("b")


def test_an_error_is_counted_and_goes_no_further():
    counters = Counters(["a"])
    with contained(counters, "a") as block:
        raise ValueError
    assert counters["a"] == 1
    assert block.failed


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_program_passes_through(error):
    with pytest.raises(error), contained(Counters(["a"]), "a"):
        raise error


async def test_cancellation_passes_through():
    counters = Counters(["a"])
    with trio.CancelScope() as scope, contained(counters, "a"):
        scope.cancel()
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert counters["a"] == 0
