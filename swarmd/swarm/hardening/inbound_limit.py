"""T3: py-libp2p holds a token of its inbound limit until the *host* ends: after 250 connections in its life a node accepts no more.

The replacement counts live connections and frees a place when its connection ends. Who may come in, and who leaves for it, is in
`swarmd.swarm.places`.
"""

from types import MethodType

import trio
from libp2p.abc import IHost, INetworkService, IRawConnection
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.stream_muxer.yamux.yamux import Yamux
from multiaddr import Multiaddr

from swarmd.swarm.hardening.counters import Counters, contained
from swarmd.swarm.hardening.wire_bytes import remote_address
from swarmd.swarm.nets import plain
from swarmd.swarm.places import Places

CLOSE_S_MAX = 1.0


def limit_inbound(host: IHost, places: Places, counters: Counters) -> None:
    """Replace the host's inbound handler by one that gives places back.

    Counts `inbound_accepted`, `inbound_refused_full`, `inbound_refused_ip`, `inbound_failed`, `inbound_evicted`.
    """

    async def handle(network: INetworkService, socket: IRawConnection, listen_address: Multiaddr) -> None:
        remote = remote_address(socket)
        ip = plain(remote[0]) if remote else "unknown"
        refusal = places.refusal(ip, trio.current_time())
        if refusal is not None:
            counters.count(refusal)
            await _close(socket, counters)
            return
        places.begin(ip)
        try:
            muxed = await _upgrade(network, socket, listen_address, counters)
        finally:
            places.end(ip)
        if muxed is None:
            await _close(socket, counters)
            return
        if len(places.guests) >= places.inbound_max and not await make_way(ip):
            counters.count("inbound_refused_full")
            await _close(muxed, counters)
            return
        counters.count("inbound_accepted")
        places.enter(muxed, str(muxed.peer_id), ip, trio.current_time())
        try:
            await muxed.event_closed.wait()  # stock waits for the end of the host
        finally:
            places.leave(muxed)

    async def make_way(ip: str) -> bool:
        now = trio.current_time()
        guest = places.to_evict(ip, now)
        if guest is None:
            return False
        places.evict(guest, now)
        counters.count("inbound_evicted")
        await _close(guest, counters)
        return True

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


async def _close(connection: IRawConnection | Yamux, counters: Counters) -> None:
    with contained(counters, "close_error"), trio.move_on_after(CLOSE_S_MAX):
        await connection.close()
