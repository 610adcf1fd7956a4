"""Judging: one message after the other, by turns, and only a few milliseconds in each turn of the loop.

Up to sixteen messages of each of a hundred and fifty peers wait for their verdict. In order of arrival, honest messages would wait
behind whoever sends most, until they are given up. A peer that sends faster than its turns come is not read until they come.

Relayed messages make room instead. A flood that honest peers relay would otherwise keep the node from reading their own messages.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import trio

from swarmd.fair.flow import Flow
from swarmd.fair.queue import FairQueue

Verdict = TypeVar("Verdict")

# CPU seconds in one turn of the loop; the last message may go beyond. The dearest message takes 13 ms, an honest one 0.3 to 2.
TURN_S = 0.005
# Relayed messages of one peer that wait. A peer has 16 places (`rpc_reader`), so four are left for its own messages.
RELAYED_MAX = 12


@dataclass
class _Case(Generic[Verdict]):
    judge: Callable[[], Verdict]
    done: trio.Event = field(default_factory=trio.Event)
    found: list[Verdict] = field(default_factory=list)
    error: Exception | None = None
    given_up: bool = False
    until: float = field(default_factory=trio.current_effective_deadline)

    def decide(self) -> None:
        try:
            self.found.append(self.judge())
        except Exception as error:  # noqa: BLE001 - whoever asked gets it, and the others their verdicts
            self.error = error
        self.done.set()


class Judge(Generic[Verdict]):
    """Runs synchronous judgements in fair order.

    Args:
        cpu_s: the thread's CPU time.
    """

    def __init__(self, cpu_s: Callable[[], float]) -> None:
        self._cpu_s = cpu_s
        self._cases: FairQueue[Flow, bytes, _Case[Verdict]] = FairQueue()
        self._come = trio.Event()

    async def verdict(self, flow: Flow, origin: bytes, judge: Callable[[], Verdict]) -> Verdict | None:
        """What `judge` returns or raises, once it is the turn of `origin`'s messages in this flow.

        None for a relayed message that made room: when too many wait, the newest of the origin with most does.
        """
        case = _Case(judge)
        self._cases.put(flow, origin, case)
        if not flow.own and self._cases.num_in(flow) > RELAYED_MAX:
            self._cases.drop_newest(flow).done.set()
        self._come.set()
        try:
            await case.done.wait()
        finally:
            case.given_up = True
        if case.error is not None:
            raise case.error
        return case.found[0] if case.found else None

    async def run(self) -> None:
        """Judge for ever."""
        while True:
            if not len(self._cases):
                self._come = trio.Event()
                await self._come.wait()
            self._session()
            await trio.lowlevel.checkpoint()

    def _session(self) -> None:
        ends_s = self._cpu_s() + TURN_S
        while (turn := self._cases.next()) is not None and (began_s := self._cpu_s()) < ends_s:
            case = self._cases.pop(*turn)
            # A message that is judged after its deadline would count as seen, and nobody would get it.
            if case is None or case.given_up or case.until <= trio.current_time():
                continue
            case.decide()
            self._cases.charge(*turn, self._cpu_s() - began_s)
