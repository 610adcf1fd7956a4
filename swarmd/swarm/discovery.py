"""Discovery: both ends of the peer exchange for one host, its dialler, and the book of what worked."""

import contextlib
import random
from collections import Counter
from collections.abc import Callable

import trio
from libp2p.abc import IHost, INetStream
from libp2p.exceptions import BaseLibp2pError
from libp2p.peer.id import ID

from swarmd.clients.network import Outside
from swarmd.swarm import exchange, hearsay
from swarmd.swarm.addresses import PeerAddress, Scope, parse
from swarmd.swarm.bootstrap_list import BootstrapList
from swarmd.swarm.dial import knock
from swarmd.swarm.dialling import Dialler, Report
from swarmd.swarm.host import host_of_connection
from swarmd.swarm.outside import View
from swarmd.swarm.peer_book import PeerBook
from swarmd.swarm.whereabouts import Whereabouts

# Questions to connected peers: at once after a change, then ever more rarely.
ASK_S_MIN, ASK_S_MAX = 1.0, 60.0
SAVE_S = 30.0
# Between two looks at the operator's list of bootstraps.
LOOK_S = 5.0
# Knocks at a time. The rest wait for the peer's next question.
KNOCKS_MAX = 4


class Discovery:
    """Finds peers for one host.

    Args:
        listed: further bootstraps, which the operator may change at any time.
        own: addresses to tell others, with `/p2p/`; asked for again each time, since a laptop moves.
        report: called when the state of a bootstrap changes, with the operator's own text.
        counters: `dial_<result>`, `exchange_*`, shared with the service so that they outlive the host.
        banned: who is not dialled, not even a bootstrap.
    """

    def __init__(
        self,
        host: IHost,
        *,
        bootstrap: list[PeerAddress],
        listed: BootstrapList | None,
        book: PeerBook,
        own: Callable[[], list[str]],
        peers_wanted: int,
        rng: random.Random,
        now_s: Callable[[], float],
        report: Report,
        counters: Counter[str],
        banned: Callable[[ID], bool] = lambda peer: False,
    ) -> None:
        self._host, self._network = host, host.get_network()
        self._own, self._book, self._rng, self._now_s = own, book, rng, now_s
        self._counters, self._listed = counters, listed
        parsed = [address for text in own() if (address := parse(text)) is not None]
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
        self._whereabouts = Whereabouts(self._dialler.is_near)
        self._view = View()
        self._knocks: trio.MemorySendChannel[PeerAddress] | None = None
        self._agents: dict[str, str] = {}  # what connected peers call themselves
        self._ask_soon = trio.Event()
        # Who is being answered. One answer a peer at a time, and none over all: mute askers would take the places of the others.
        self._answering: set[ID] = set()

    async def run(self) -> None:
        self._host.set_stream_handler(exchange.PROTOCOL, self._answer)
        self._knocks, to_knock = trio.open_memory_channel[PeerAddress](0)
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(KNOCKS_MAX):
                    nursery.start_soon(self._knock_forever, to_knock)
                nursery.start_soon(self._dialler.run)
                nursery.start_soon(self._ask_forever)
                nursery.start_soon(self._save_forever)
                nursery.start_soon(self._look_forever)
        finally:
            if (content := self._book.unsaved()) is not None:
                self._book.write(content)

    def connection_changed(self, peer_id: str, *, connected: bool) -> None:
        if not connected:
            self._whereabouts.forget(peer_id)
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
            self._whereabouts.dialled(proven)

    def heard_nearby(self, address: PeerAddress) -> None:
        """A node of this swarm told its local network, and so us, where it listens."""
        self._dialler.tell(address, address.host, hearsay.NEARBY)

    def outside(self) -> Outside:
        """How peers outside our own network see us."""
        return self._view.outside(self._now_s())

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
            # Those outside are also asked now and then whether they can reach us.
            others = sorted(connected) if self._dialler.is_wanting() else self._viewers(connected)
            if fresh or others:
                peer_id = self._rng.choice(fresh or others)
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
            reply = await exchange.ask(self._host, peer, self._own())
        except exchange.BadFrame:
            self._counters["exchange_failed"] += 1
            return
        self._counters["exchange_asked"] += 1
        self._note_agent(peer, reply.agent)
        teller = hearsay.voice(teller_host, str(peer))
        if reply.you is not None and not self._dialler.is_near(teller_host):
            self._view.note(teller, reply.you.host, reply.you.reached, self._now_s())
        dialled = self._dialler.has_dialled(peer)
        for hint in reply.addresses:
            self._dialler.tell(hint, teller_host, teller, teller_dialled=dialled)

    def _viewers(self, connected: dict[str, ID]) -> list[str]:
        """Who may say how we look from outside, while that is not known."""
        if not self._view.wants(self._now_s()):
            return []
        hosts = {peer_id: host_of_connection(self._network, peer) for peer_id, peer in connected.items()}
        return sorted(peer_id for peer_id, host in hosts.items() if host and not self._dialler.is_near(host))

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
                you = self._believe(question.addresses, peer)
                await exchange.answer(stream, self._known_to(peer), you)
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

    def _believe(self, claims: list[PeerAddress], peer: ID) -> exchange.You | None:
        """Note where a peer says that it listens; what is known of that by now."""
        seen = host_of_connection(self._network, peer)
        if seen is None:
            return None
        peer_id, now_s = str(peer), self._now_s()
        self._whereabouts.claims(peer_id, claims, seen)
        address = self._whereabouts.to_knock(peer_id, now_s)
        if address is not None and self._knocks is not None:
            with contextlib.suppress(trio.WouldBlock):  # all knockers are out
                self._knocks.send_nowait(address)
                self._whereabouts.knocking(address, now_s)
        return exchange.You(seen, self._whereabouts.reached(str(peer)))

    async def _knock_forever(self, to_knock: trio.MemoryReceiveChannel[PeerAddress]) -> None:
        async for address in to_knock:
            reached = await knock(self._host, address)
            self._counters["knocks_answered" if reached else "knocks_vain"] += 1
            self._whereabouts.knocked(address, self._now_s(), reached=reached)

    def _known_to(self, asker: ID) -> list[str]:
        """Where the others are, as far as the asker may take it from us."""
        asker_host = host_of_connection(self._network, asker)
        if asker_host is None:
            return []
        others = [peer_id for peer in self._network.connections if (peer_id := str(peer)) != str(asker)]
        self._rng.shuffle(others)
        return self._whereabouts.told_to(asker_host, others)[: exchange.ADDRESSES_MAX]

    async def _look_forever(self) -> None:
        """Take the operator's list over whenever it changes."""
        while self._listed is not None:
            if (addresses := await trio.to_thread.run_sync(self._listed.changed)) is not None:
                self._dialler.set_listed(addresses)
            await trio.sleep(LOOK_S)

    async def _save_forever(self) -> None:
        while True:
            await trio.sleep(SAVE_S)
            if (content := self._book.unsaved()) is not None:
                await trio.to_thread.run_sync(self._book.write, content)
