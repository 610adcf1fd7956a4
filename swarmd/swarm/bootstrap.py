"""Discovery: keeps this node connected to its bootstraps, to peers that worked before and to peers that peers named.

Promises: no dial delays another or the start; a bootstrap is never given up; everything a stranger can add is bounded. Stock
py-libp2p blocks the start on a mute bootstrap, forgets a bootstrap after three failures, and blocks a failed peer for a minute.
"""

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trio
from libp2p.exceptions import BaseLibp2pError
from libp2p.peer.id import ID
from libp2p.rcmgr import Direction

from swarmd.swarm import exchange
from swarmd.swarm.addresses import PeerAddress, Scope, observed_scope, parse
from swarmd.swarm.dial import Dialled, dial
from swarmd.swarm.host import host_of_connection
from swarmd.swarm.peer_book import PeerBook

BACK_OFF_S_MIN, BACK_OFF_S_MAX = 1.0, 60.0
# A hint is dropped after this many failures, an address of the book after the second number (about six minutes).
HINT_FAILURES_MAX, BOOK_FAILURES_MAX = 3, 10
# Addresses named by peers that wait for a dial; more are not taken until these are tried.
HINTS_MAX = 128
# A hint that failed is not taken again for so long: behind most home routers nobody can be dialled, yet they are named on.
FAILED_S, FAILED_MAX = 600.0, 512
# Dials at a time. Each costs a socket and, when it succeeds, 50 ms of CPU.
DIALS_MAX = 16
# Questions to connected peers: at once after a change, then ever more rarely.
ASK_S_MIN, ASK_S_MAX = 1.0, 60.0
# Answers given at a time, over all peers; a further asker is refused and comes back.
ANSWERS_MAX = 16
SAVE_S = 30.0

Report = Callable[[str, Dialled], None]


@dataclass
class _Candidate:
    address: PeerAddress
    failures_max: int | None  # None: never given up
    num_failures: int = 0
    due_at: float = 0.0
    dialling: bool = False
    last: Dialled | None = None


class Discovery:
    """The dial loop and both ends of the peer exchange for one host.

    Args:
        own: addresses to tell others, with `/p2p/`.
        report: called when the state of a bootstrap changes, with the operator's own text.
        counters: `dial_<result>`, `exchange_*`, shared with the service so that they outlive the host.
        banned: who is not dialled, not even a bootstrap.
    """

    def __init__(
        self,
        host: Any,
        *,
        bootstrap: list[PeerAddress],
        book: PeerBook,
        own: list[str],
        peers_wanted: int,
        rng: random.Random,
        now_s: Callable[[], float],
        report: Report,
        counters: Counter[str],
        banned: Callable[[ID], bool] = lambda peer: False,
    ) -> None:
        self._host, self._network = host, host.get_network()
        self._own_id = str(host.get_id())
        self._own = own
        self._own_is_public = any((a := parse(text)) is not None and a.scope is Scope.PUBLIC for text in own)
        self._book, self._rng, self._now_s, self._report = book, rng, now_s, report
        self._peers_wanted, self._counters = peers_wanted, counters
        self._banned = banned
        self._candidates: dict[str, _Candidate] = {}
        self._reachable: dict[str, PeerAddress] = {}  # where connected peers can be dialled, by peer id
        self._failed_until: dict[str, float] = {}  # hints that failed
        self._agents: dict[str, str] = {}  # what connected peers call themselves
        self._changed = trio.Event()
        self._ask_soon = trio.Event()
        self._answering = trio.CapacityLimiter(ANSWERS_MAX)
        for address in bootstrap:
            self._add(address, None)
        for address in book.addresses():
            self._add(address, BOOK_FAILURES_MAX)

    async def run(self) -> None:
        """Dial, ask and save until cancelled."""
        self._host.set_stream_handler(exchange.PROTOCOL, self._answer)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._dial_forever)
                nursery.start_soon(self._ask_forever)
                nursery.start_soon(self._save_forever)
        finally:
            if (content := self._book.unsaved()) is not None:
                self._book.write(content)

    def connection_changed(self, peer_id: str, *, connected: bool) -> None:
        """Told by the service; a loss is answered with an immediate look round."""
        if not connected:
            self._reachable.pop(peer_id, None)
            self._agents.pop(peer_id, None)
            for candidate in self._candidates.values():
                if candidate.address.peer_id == peer_id:
                    candidate.due_at = trio.current_time() + self._rng.uniform(0.1, BACK_OFF_S_MIN)
        self._changed.set()
        self._ask_soon.set()

    async def connect(self, address: PeerAddress) -> Dialled:
        """Dial one address now, because somebody asked for it."""
        if self._banned(ID.from_string(address.peer_id)):
            return Dialled.BANNED
        result = await dial(self._host, address)
        self._counters[f"dial_{result.value}"] += 1
        if result is Dialled.CONNECTED:
            self._succeeded(address)
        return result

    def agent_of(self, peer_id: str) -> str:
        """Program and version that a connected peer claims, or nothing yet."""
        return self._agents.get(peer_id, "")

    def bootstrap_states(self) -> dict[str, str]:
        """The last result of each bootstrap, by its address; `waiting` before the first."""
        return {
            c.address.text: self._state_of(c) for c in self._candidates.values() if c.failures_max is None
        }

    def _state_of(self, candidate: _Candidate) -> str:
        if self._banned(ID.from_string(candidate.address.peer_id)):
            return Dialled.BANNED.value
        if self._is_connected(candidate.address):
            return "connected"
        return candidate.last.value if candidate.last else "waiting"

    def _add(self, address: PeerAddress, failures_max: int | None) -> None:
        if address.peer_id != self._own_id and address.text not in self._candidates:
            self._candidates[address.text] = _Candidate(address, failures_max)
            self._changed.set()

    def _is_connected(self, address: PeerAddress) -> bool:
        return bool(self._network.get_connections(ID.from_string(address.peer_id)))

    def _num_dialled(self) -> int:
        """Peers that we dialled. Those that dialled us do not count: a stranger with many machines could be all of them."""
        return sum(
            any(connection.direction is Direction.OUTBOUND for connection in connections)
            for connections in self._network.connections.values()
        )

    # -- dialling

    async def _dial_forever(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                for candidate in self._due():
                    candidate.dialling = True
                    nursery.start_soon(self._try, candidate)
                with trio.move_on_after(self._seconds_to_next()):
                    await self._changed.wait()

    def _due(self) -> list[_Candidate]:
        now, num_dialled = trio.current_time(), self._num_dialled()
        dialling = {c.address.peer_id for c in self._candidates.values() if c.dialling}
        due: list[_Candidate] = []
        for candidate in self._candidates.values():
            peer_id, wanted = candidate.address.peer_id, candidate.failures_max is None
            num_left = self._peers_wanted - num_dialled - len(dialling)
            if candidate.due_at > now or peer_id in dialling or (len(dialling) >= DIALS_MAX and not wanted):
                continue
            if self._banned(ID.from_string(peer_id)):
                continue
            if (wanted or num_left > 0) and not self._is_connected(candidate.address):
                dialling.add(peer_id)
                due.append(candidate)
        return due

    def _seconds_to_next(self) -> float:
        waiting = [
            c.due_at
            for c in self._candidates.values()
            if not c.dialling and not self._is_connected(c.address)
        ]
        # The floor keeps a candidate that is due but not wanted now from spinning; changes wake the loop anyway.
        wait_s = min(waiting, default=math.inf) - trio.current_time()
        return float(min(max(wait_s, 0.25), BACK_OFF_S_MAX))

    async def _try(self, candidate: _Candidate) -> None:
        result = await dial(self._host, candidate.address)
        self._counters[f"dial_{result.value}"] += 1
        candidate.dialling = False
        if candidate.failures_max is None and result is not candidate.last:
            self._report(candidate.address.text, result)
        candidate.last = result
        if result is Dialled.CONNECTED:
            candidate.num_failures = 0
            if candidate.failures_max is not None:
                candidate.failures_max = BOOK_FAILURES_MAX  # no longer hearsay
            # A peer that takes us and drops us at once must not be dialled in a tight loop.
            candidate.due_at = trio.current_time() + BACK_OFF_S_MIN
            self._succeeded(candidate.address)
        else:
            candidate.num_failures += 1
            candidate.due_at = trio.current_time() + back_off_s(candidate.num_failures, self._rng)
            if candidate.failures_max is not None and candidate.num_failures >= candidate.failures_max:
                self._candidates.pop(candidate.address.text, None)
                if candidate.failures_max == HINT_FAILURES_MAX:
                    self._note_failed(candidate.address.text)
                if (
                    not self._candidates and not self._network.connections
                ):  # cut off: begin again with the book
                    for address in self._book.addresses():
                        self._add(address, BOOK_FAILURES_MAX)
        self._changed.set()

    def _note_failed(self, text: str) -> None:
        now = trio.current_time()
        self._failed_until = {t: until for t, until in self._failed_until.items() if until > now}
        if len(self._failed_until) < FAILED_MAX:
            self._failed_until[text] = now + FAILED_S

    def _succeeded(self, address: PeerAddress) -> None:
        self._book.record(address, int(self._now_s()))
        seen = host_of_connection(self._network, ID.from_string(address.peer_id))
        if seen is not None:  # passed on by number: nobody takes a name from a stranger
            family = "ip6" if ":" in seen else "ip4"
            told = parse(f"/{family}/{seen}/tcp/{address.port}/p2p/{address.peer_id}")
            if told is not None:
                self._reachable[address.peer_id] = told

    # -- exchange

    async def _ask_forever(self) -> None:
        delay_s = ASK_S_MIN
        asked: set[str] = set()
        while True:
            connected = {str(peer): peer for peer in list(self._network.connections)}
            asked &= connected.keys()
            if not asked >= connected.keys():
                delay_s = ASK_S_MIN
            # Each new neighbour is asked once, soon after it appears; the known ones again only while peers are wanted.
            fresh = sorted(connected.keys() - asked)
            if fresh or (connected and self._num_dialled() < self._peers_wanted):
                peer_id = self._rng.choice(fresh or sorted(connected))
                asked.add(peer_id)
                await self._ask(connected[peer_id])
            self._ask_soon = trio.Event()
            with trio.move_on_after(delay_s * self._rng.uniform(0.5, 1.0)):
                await self._ask_soon.wait()
                delay_s = ASK_S_MIN
                await trio.sleep(self._rng.uniform(0.05, 0.2))  # several changes at once are one
            delay_s = min(delay_s * 1.5, ASK_S_MAX)

    async def _ask(self, peer: ID) -> None:
        teller = host_of_connection(self._network, peer)
        if teller is None:
            return
        try:
            reply = await exchange.ask(self._host, peer, self._own)
        except exchange.BadFrame:
            self._counters["exchange_failed"] += 1
            return
        self._counters["exchange_asked"] += 1
        num_hints = sum(c.failures_max == HINT_FAILURES_MAX for c in self._candidates.values())
        self._agents[str(peer)] = reply.agent
        for hint in reply.addresses:
            if not exchange.acceptable(hint, teller, own_is_public=self._own_is_public):
                self._counters["exchange_hints_refused"] += 1
            elif self._failed_until.get(hint.text, 0.0) > trio.current_time():
                self._counters["exchange_hints_failed"] += 1
            elif hint.text not in self._candidates and num_hints < HINTS_MAX:
                num_hints += 1
                self._add(hint, HINT_FAILURES_MAX)

    async def _answer(self, stream: Any) -> None:
        peer = stream.muxed_conn.peer_id
        try:
            self._answering.acquire_on_behalf_of_nowait(stream)
        except trio.WouldBlock:
            self._counters["exchange_busy"] += 1
            await stream.reset()
            return
        try:
            with trio.fail_after(exchange.EXCHANGE_S_MAX):
                question = await exchange.read_question(stream)
                self._agents[str(peer)] = question.agent
                self._believe(question.addresses, peer)
                await exchange.answer(stream, self._known_to(peer))
            self._counters["exchange_answered"] += 1
        except (BaseLibp2pError, exchange.BadFrame, trio.TooSlowError, trio.BrokenResourceError):
            self._counters["exchange_failed"] += 1
            await stream.reset()
        finally:
            self._answering.release_on_behalf_of(stream)

    def _believe(self, claims: list[PeerAddress], peer: ID) -> None:
        seen = host_of_connection(self._network, peer)
        if seen is not None and (address := exchange.believable(claims, str(peer), seen)):
            self._reachable.setdefault(str(peer), address)

    def _known_to(self, asker: ID) -> list[str]:
        """Where the others are, none of it nearer than the asker is: it could not use it."""
        seen = host_of_connection(self._network, asker)
        scope = observed_scope(seen) if seen else Scope.PUBLIC
        connected = {str(peer) for peer in self._network.connections} - {str(asker)}
        known = [a.text for p, a in self._reachable.items() if p in connected and a.scope >= scope]
        return self._rng.sample(known, min(len(known), exchange.ADDRESSES_MAX))

    async def _save_forever(self) -> None:
        while True:
            await trio.sleep(SAVE_S)
            if (content := self._book.unsaved()) is not None:
                await trio.to_thread.run_sync(self._book.write, content)


def back_off_s(num_failures: int, rng: random.Random) -> float:
    """Seconds to wait after so many failures in a row: doubling from 1 to 60, each cut by up to half at random."""
    longest = min(BACK_OFF_S_MIN * 2.0 ** min(num_failures - 1, 10), BACK_OFF_S_MAX)
    return float(longest * rng.uniform(0.5, 1.0))
