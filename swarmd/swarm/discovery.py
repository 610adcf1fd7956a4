"""Discovery: both ends of the peer exchange for one host, its dialler, and the book of what worked."""

import random
from collections import Counter
from collections.abc import Callable

import trio
from libp2p.abc import IHost, INetStream
from libp2p.exceptions import BaseLibp2pError
from libp2p.peer.id import ID

from swarmd.swarm import exchange, hearsay
from swarmd.swarm.addresses import PeerAddress, Scope, parse
from swarmd.swarm.dialling import Dialler, Report
from swarmd.swarm.host import host_of_connection
from swarmd.swarm.peer_book import PeerBook

# Questions to connected peers: at once after a change, then ever more rarely.
ASK_S_MIN, ASK_S_MAX = 1.0, 60.0
SAVE_S = 30.0


class Discovery:
    """Finds peers for one host.

    Args:
        own: addresses to tell others, with `/p2p/`.
        report: called when the state of a bootstrap changes, with the operator's own text.
        counters: `dial_<result>`, `exchange_*`, shared with the service so that they outlive the host.
        banned: who is not dialled, not even a bootstrap.
    """

    def __init__(
        self,
        host: IHost,
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
        self._own, self._book, self._rng, self._now_s = own, book, rng, now_s
        self._counters = counters
        parsed = [address for text in own if (address := parse(text)) is not None]
        self._dialler = Dialler(
            host,
            bootstrap=bootstrap,
            remembered=book.addresses,
            own_hosts=[address.host for address in parsed],
            own_is_public=any(address.scope is Scope.PUBLIC for address in parsed),
            peers_wanted=peers_wanted,
            rng=rng,
            report=report,
            succeeded=self._succeeded,
            counters=counters,
            banned=banned,
        )
        # Where connected peers can be dialled, by peer id: as we dialled them, and as they claim.
        self._proven: dict[str, PeerAddress] = {}
        self._claimed: dict[str, PeerAddress] = {}
        self._agents: dict[str, str] = {}  # what connected peers call themselves
        self._ask_soon = trio.Event()
        # Who is being answered. One answer a peer at a time, and none over all: mute askers would take the places of the others.
        self._answering: set[ID] = set()

    async def run(self) -> None:
        self._host.set_stream_handler(exchange.PROTOCOL, self._answer)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._dialler.run)
                nursery.start_soon(self._ask_forever)
                nursery.start_soon(self._save_forever)
        finally:
            if (content := self._book.unsaved()) is not None:
                self._book.write(content)

    def connection_changed(self, peer_id: str, *, connected: bool) -> None:
        if not connected:
            self._proven.pop(peer_id, None)
            self._claimed.pop(peer_id, None)
            self._agents.pop(peer_id, None)
        self._dialler.connection_changed(peer_id, connected=connected)
        self._ask_soon.set()

    def agent_of(self, peer_id: str) -> str:
        return self._agents.get(peer_id, "")

    def bootstrap_states(self) -> dict[str, str]:
        """The last result of each bootstrap, by its address; `waiting` before the first."""
        return self._dialler.bootstrap_states()

    def _succeeded(self, address: PeerAddress) -> None:
        """Told and remembered by number: nobody takes a name from a stranger, and a name may lead elsewhere tomorrow."""
        seen = host_of_connection(self._network, ID.from_string(address.peer_id))
        if seen is None:
            return
        if (proven := address.seen_at(seen)) is not None:
            self._book.note(proven, int(self._now_s()))
            self._proven[address.peer_id] = proven

    # -- asking

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
            if fresh or (connected and self._dialler.is_wanting()):
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
        teller_host = host_of_connection(self._network, peer)
        if teller_host is None:
            return
        try:
            reply = await exchange.ask(self._host, peer, self._own)
        except exchange.BadFrame:
            self._counters["exchange_failed"] += 1
            return
        self._counters["exchange_asked"] += 1
        self._note_agent(peer, reply.agent)
        teller = hearsay.voice(teller_host, str(peer))
        for hint in reply.addresses:
            self._dialler.tell(hint, teller_host, teller)

    # -- answering

    async def _answer(self, stream: INetStream) -> None:
        peer = stream.muxed_conn.peer_id
        if peer in self._answering:
            self._counters["exchange_busy"] += 1
            await stream.reset()
            return
        self._answering.add(peer)
        try:
            with trio.fail_after(exchange.EXCHANGE_S_MAX):
                question = await exchange.read_question(stream)
                self._note_agent(peer, question.agent)
                self._believe(question.addresses, peer)
                await exchange.answer(stream, self._known_to(peer))
            self._counters["exchange_answered"] += 1
        except (BaseLibp2pError, exchange.BadFrame, trio.TooSlowError, trio.BrokenResourceError):
            self._counters["exchange_failed"] += 1
            await stream.reset()
        finally:
            self._answering.discard(peer)

    def _note_agent(self, peer: ID, agent: str) -> None:
        if self._network.get_connections(
            peer
        ):  # its last word may be read after it left, and nobody would forget it
            self._agents[str(peer)] = agent

    def _believe(self, claims: list[PeerAddress], peer: ID) -> None:
        seen = host_of_connection(self._network, peer)
        if seen is not None and (address := hearsay.believable(claims, str(peer), seen)):
            self._claimed.setdefault(str(peer), address)

    def _known_to(self, asker: ID) -> list[str]:
        """Where the others are, as far as the asker may take it from us; the proven first: routers hide many of the others."""
        asker_host = host_of_connection(self._network, asker)
        if asker_host is None:
            return []
        others = [peer_id for peer in self._network.connections if (peer_id := str(peer)) != str(asker)]
        self._rng.shuffle(others)
        others.sort(key=lambda peer_id: peer_id not in self._proven)
        known = [self._proven.get(peer_id) or self._claimed.get(peer_id) for peer_id in others]
        told = [
            address.text
            for address in known
            if address is not None
            and hearsay.acceptable(address, asker_host, is_near=self._dialler.is_near, own_is_public=False)
        ]
        return told[: exchange.ADDRESSES_MAX]

    async def _save_forever(self) -> None:
        while True:
            await trio.sleep(SAVE_S)
            if (content := self._book.unsaved()) is not None:
                await trio.to_thread.run_sync(self._book.write, content)
