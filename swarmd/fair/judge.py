"""Judging: one message after the other, by turns, and only a few milliseconds in each turn of the loop.

Up to sixteen messages of each of a hundred and fifty peers wait for their verdict. In order of arrival, honest messages would wait
behind whoever sends most, until they are given up. A peer that sends faster than its turns come is not read until they come.

Relayed messages make room instead. A flood that honest peers relay would otherwise keep the node from reading their own messages:
with all places held by relayed messages of connected authors, these came 20 to 70 s late (`make attack`, 2 cores).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import trio

from swarmd.fair.flow import Flow
from swarmd.fair.queue import FairQueue

Verdict = TypeVar("Verdict")

# CPU seconds in one turn of the loop; the last message may go beyond. The dearest message takes 13 ms, an honest one 0.3 to 2.
TURN_S = 0.005
# Relayed messages that wait, of all that one peer brought. It has 16 places (`rpc_reader`), so four are left for its own messages.
RELAYED_MAX = 12


@dataclass(eq=False)
class _Case(Generic[Verdict]):
    judge: Callable[[], Verdict] | None
    done: trio.Event = field(default_factory=trio.Event)
    found: list[Verdict] = field(default_factory=list)
    error: Exception | None = None
    until: float = field(default_factory=trio.current_effective_deadline)

    @property
    def given_up(self) -> bool:
        return self.judge is None

    def give_up(self) -> None:
        """Nobody waits any more. The case keeps its place in its flow, and no message."""
        self.judge = None

    def decide(self) -> None:
        assert self.judge is not None
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
        # Authors and cases by the peer that brought them, where that is not the author; newest last, never empty.
        self._relayed: dict[bytes, list[tuple[bytes, _Case[Verdict]]]] = {}
        self._come = trio.Event()

    async def verdict(
        self, flow: Flow, origin: bytes, judge: Callable[[], Verdict], *, bringer: bytes
    ) -> Verdict | None:
        """What `judge` returns or raises, once it is the turn of `origin`'s messages in this flow.

        None for a relayed message that made room: when a bringer has too many, the newest of its author with most does.

        Args:
            bringer: the peer that handed the message over, and whose place the message holds.
        """
        case = _Case(judge)
        self._cases.put(flow, origin, case)
        if origin != bringer:
            self._relayed.setdefault(bringer, []).append((origin, case))
            self._make_room(bringer)
        self._come.set()
        try:
            await case.done.wait()
        finally:
            case.give_up()
            self._forget(bringer, origin, case)
        if case.error is not None:
            raise case.error
        return case.found[0] if case.found else None

    def _make_room(self, bringer: bytes) -> None:
        """End the newest case of the author with most, where the bringer has too many."""
        relayed = self._relayed[bringer]
        if len(relayed) > RELAYED_MAX:
            nums = Counter(origin for origin, _ in relayed)
            origin, case = max(reversed(relayed), key=lambda one: nums[one[0]])
            self._forget(bringer, origin, case)
            case.give_up()
            case.done.set()

    def _forget(self, bringer: bytes, origin: bytes, case: _Case[Verdict]) -> None:
        """The case holds no place any more; nothing happens where it held none."""
        relayed = self._relayed.get(bringer, [])
        if (origin, case) in relayed:
            relayed.remove((origin, case))
            if not relayed:
                del self._relayed[bringer]

    async def run(self) -> None:
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
