"""Judging: fair by time between forwarders, own messages apart from relayed ones, a few milliseconds at a time."""

import itertools
from collections.abc import Callable
from functools import partial

import pytest
import trio
import trio.testing

from swarmd.fair.flow import Flow, flow_of
from swarmd.fair.judge import RELAYED_MAX, TURN_S, Judge
from swarmd.swarm.hardening.rpc_reader import VALIDATIONS_PER_PEER_MAX


class Court:
    """A judge on a clock that stands still but for what judgements cost."""

    def __init__(self) -> None:
        self.cpu_s, self.judged = 0.0, list[str]()
        self.judge: Judge[str] = Judge(lambda: self.cpu_s)

    def case(self, name: str, cost_s: float = 0.001) -> Callable[[], str]:
        def judge() -> str:
            self.judged.append(name)
            self.cpu_s += cost_s
            return name

        return judge

    async def bring(self, name: str, *, forwarder: bytes, origin: bytes, cost_s: float = 0.001) -> None:
        found = await self.judge.verdict(
            Flow(forwarder, forwarder == origin), origin, self.case(name, cost_s), bringer=forwarder
        )
        assert found == name


async def test_a_flood_does_not_hold_up_its_neighbours() -> None:
    court = Court()
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as cases:
            for number in range(100):
                cases.start_soon(
                    lambda n=number: court.bring(f"flood {n}", forwarder=b"f", origin=b"f", cost_s=0.013)
                )
            await trio.testing.wait_all_tasks_blocked()
            for number in range(3):
                cases.start_soon(lambda n=number: court.bring(f"honest {n}", forwarder=b"h", origin=b"h"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(court.judge.run)
        nursery.cancel_scope.cancel()
    assert {f"honest {number}" for number in range(3)} <= set(court.judged[:4])


async def test_what_a_peer_relays_does_not_hold_up_what_it_says_itself() -> None:
    court = Court()
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as cases:
            for number in range(RELAYED_MAX):
                origin = b"stranger %d" % number
                cases.start_soon(
                    lambda o=origin: court.bring("relayed", forwarder=b"h", origin=o, cost_s=0.01)
                )
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(5):
                cases.start_soon(lambda: court.bring("own", forwarder=b"h", origin=b"h"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(court.judge.run)
        nursery.cancel_scope.cancel()
    assert court.judged[:6].count("own") == 5


@pytest.mark.parametrize("connected", [False, True])
async def test_relayed_messages_make_room_and_those_of_whom_there_are_most_first(connected: bool) -> None:
    court, answers = Court(), dict[str, str | None]()
    assert RELAYED_MAX < VALIDATIONS_PER_PEER_MAX

    async def bring(name: str, origin: bytes, forwarder: bytes = b"h") -> None:
        answers[name] = await court.judge.verdict(
            flow_of(origin, forwarder, connected=connected), origin, court.case(name), bringer=forwarder
        )

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as cases:
            for number in range(RELAYED_MAX):
                cases.start_soon(bring, f"flood {number}", b"flooder")
                await trio.testing.wait_all_tasks_blocked()
            for name, origin in {"stranger": b"stranger", "own": b"h"}.items():
                cases.start_soon(bring, name, origin)
                await trio.testing.wait_all_tasks_blocked()
            cases.start_soon(bring, "of another", b"flooder", b"i")
            await trio.testing.wait_all_tasks_blocked()
            assert answers == {f"flood {RELAYED_MAX - 1}": None}
            nursery.start_soon(court.judge.run)
        nursery.cancel_scope.cancel()
    assert [name for name, found in answers.items() if found is None] == [f"flood {RELAYED_MAX - 1}"]


async def test_a_message_that_made_room_is_forgotten_whole() -> None:
    court, flow = Court(), Flow(b"flooder", own=True)
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as cases:
            for number in range(3 * RELAYED_MAX):
                verdict = partial(court.judge.verdict, flow, b"flooder", court.case(str(number)))
                cases.start_soon(partial(verdict, bringer=b"h"))
            await trio.testing.wait_all_tasks_blocked()
            assert sum(map(len, court.judge._relayed.values())) == RELAYED_MAX
            nursery.start_soon(court.judge.run)
        nursery.cancel_scope.cancel()
    assert len(court.judged) == RELAYED_MAX
    assert not court.judge._relayed


async def test_the_loop_turns_between_sessions() -> None:
    court, turns = Court(), list[float]()

    async def watch() -> None:
        while True:
            turns.append(court.cpu_s)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as cases:
            for number in range(200):
                cases.start_soon(lambda n=number: court.bring(str(n), forwarder=b"%d" % n, origin=b"x"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(court.judge.run)
            nursery.start_soon(watch)
        nursery.cancel_scope.cancel()
    assert len(court.judged) == 200
    steps = [after - before for before, after in itertools.pairwise(turns)]
    # tasks of one turn run in any order, so that two sessions may lie between two looks
    assert max(steps) <= 2 * (TURN_S + 0.001) + 1e-9


async def test_an_exception_is_its_askers_and_the_others_get_their_verdicts() -> None:
    court = Court()

    def fail() -> str:
        raise ZeroDivisionError

    async with trio.open_nursery() as nursery:
        nursery.start_soon(court.judge.run)
        with pytest.raises(ZeroDivisionError):
            await court.judge.verdict(Flow(b"f", True), b"f", fail, bringer=b"f")
        await court.bring("next", forwarder=b"f", origin=b"f")
        nursery.cancel_scope.cancel()


async def test_who_gave_up_is_not_judged() -> None:
    court = Court()
    with trio.move_on_after(0):
        await court.bring("late", forwarder=b"f", origin=b"f")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(court.judge.run)
        await court.bring("here", forwarder=b"f", origin=b"f")
        nursery.cancel_scope.cancel()
    assert court.judged == ["here"]


async def test_what_is_too_late_is_not_judged_in_the_same_moment(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It would count as seen, and nobody would have it."""
    court, num_answers = Court(), 0

    async def bring(number: int) -> None:
        nonlocal num_answers
        with trio.move_on_after(1 + number / 1000):
            await court.bring(str(number), forwarder=b"f", origin=b"f", cost_s=TURN_S)
            num_answers += 1

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as cases:
            for number in range(100):
                cases.start_soon(bring, number)
            await trio.sleep(1.05)
            nursery.start_soon(court.judge.run)
        nursery.cancel_scope.cancel()
    assert 0 < len(court.judged) == num_answers < 50


async def test_another_life_goes_on_with_what_waits() -> None:
    court = Court()
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0):
            await court.judge.run()
        nursery.start_soon(lambda: court.bring("waits", forwarder=b"f", origin=b"f"))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.01):
            await court.judge.run()
    assert court.judged == ["waits"]
