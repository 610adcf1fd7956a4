"""T3: py-libp2p holds a token of its inbound limit until the *host* ends: after 250 connections in its life a node accepts no more.

The replacement counts live connections and frees a place when its connection ends. It bounds handshakes and connections by
address, so that one machine cannot take all places: idle sockets would block each place for 10 s at a time. In IPv6 a /64 counts
as one address, because every machine has 2^64 addresses.
"""

from collections import Counter
from dataclasses import dataclass, field
from types import MethodType

import trio
from libp2p.abc import IHost, INetworkService, IRawConnection
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.stream_muxer.yamux.yamux import Yamux
from multiaddr import Multiaddr

from swarmd.swarm.hardening.counters import Counters, contained
from swarmd.swarm.hardening.wire_bytes import remote_address
from swarmd.swarm.nets import machine_of, plain


@dataclass
class InboundPlaces:
    """Who may come in: live connections and handshakes under way, in all and per address. Pure bookkeeping."""

    inbound_max: int
    inbound_per_ip_max: int
    pending_max: int
    pending_per_ip_max: int
    live: Counter[str] = field(default_factory=Counter)
    pending: Counter[str] = field(default_factory=Counter)

    def refusal(self, ip: str) -> str | None:
        """Why a connection from this address must be turned away: the counter's name, or None if it may come in."""
        if self.live.total() >= self.inbound_max or self.pending.total() >= self.pending_max:
            return "inbound_refused_full"
        if self.live[ip] >= self.inbound_per_ip_max or self.pending[ip] >= self.pending_per_ip_max:
            return "inbound_refused_ip"
        return None


def _release(places: Counter[str], ip: str) -> None:
    places[ip] -= 1
    if places[ip] <= 0:  # addresses of the whole internet would pile up otherwise
        del places[ip]


def limit_inbound(host: IHost, places: InboundPlaces, counters: Counters) -> None:
    """Replace the host's inbound handler by one that gives places back.

    Counts `inbound_accepted`, `inbound_refused_full`, `inbound_refused_ip`, `inbound_failed`.
    """

    async def handle(network: INetworkService, socket: IRawConnection, listen_address: Multiaddr) -> None:
        remote = remote_address(socket)
        ip = machine_of(plain(remote[0])) if remote else "unknown"
        refusal = places.refusal(ip)
        if refusal is not None:
            counters.count(refusal)
            await _close(socket, counters)
            return
        places.pending[ip] += 1
        try:
            muxed = await _upgrade(network, socket, listen_address, counters)
        finally:
            _release(places.pending, ip)
        if muxed is None:
            await _close(socket, counters)
            return
        counters.count("inbound_accepted")
        places.live[ip] += 1
        try:
            await muxed.event_closed.wait()  # stock waits for the end of the host
        finally:
            _release(places.live, ip)

    network = host.get_network()
    network._handle_inbound_connection = MethodType(handle, network)


async def _upgrade(
    network: INetworkService, socket: IRawConnection, listen_address: Multiaddr, counters: Counters
) -> Yamux | None:
    """Gate, security and muxer as in stock; None when the other side was turned away or failed."""
    with contained(counters, "inbound_failed"):
        remote = network._build_remote_multiaddr(socket)
        if remote is None or await network.connection_gate.is_allowed(remote):
            return await network.upgrade_inbound_raw_conn(RawConnection(socket, False), listen_address)
    return None


async def _close(socket: IRawConnection, counters: Counters) -> None:
    with contained(counters, "close_error"), trio.move_on_after(1):
        await socket.close()
