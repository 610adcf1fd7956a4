"""Stock closes a connection whose ping is not answered in time, though other bytes come through it all the while.

On a node under attack a pong waits behind what came before it, for longer than 8 s: honest nodes lost all their connections to each
other within a minute (`make attack`, 2 cores). Here a connection is closed when nothing at all came through it. Yamux asks every
peer for a pong every 30 to 40 s, so a live one is never silent for long. A frozen peer would stay in the mesh until TCP gives up.
"""

from collections.abc import Awaitable, Callable

import trio
from libp2p.abc import IHost, INetConn
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.security.secure_session import SecureSession

from swarmd.swarm.hardening.counters import Counters, contained

# Seconds without a byte: two of yamux's pings, each after 40 s at most where the one before was not answered.
SILENT_S_MAX = 90.0
LOOK_S = 10.0
# A frozen peer takes no goodbye.
CLOSE_S_MAX = 2.0


class Heard:
    """Reads of one raw connection; `heard_s` is when bytes came last, by trio's clock."""

    def __init__(self, read: Callable[[int | None], Awaitable[bytes]]) -> None:
        self._read = read
        self.heard_s = trio.current_time()

    async def read(self, n: int | None = None) -> bytes:
        """Gives or raises whatever the connection's own read does."""
        data = await self._read(n)
        if data:
            self.heard_s = trio.current_time()
        return data


def note_what_is_heard(host: IHost) -> None:
    """From now on every connection of this host, whoever dialled, knows when bytes came last."""
    upgrader = host.get_network().upgrader
    secure = upgrader.upgrade_security

    async def upgrade_security(
        connection: RawConnection, is_initiator: bool, peer_id: ID | None = None
    ) -> SecureSession:
        heard = Heard(connection.read)
        connection.read = heard.read
        secured = await secure(connection, is_initiator, peer_id)
        secured.heard = heard
        return secured

    upgrader.upgrade_security = upgrade_security


async def close_silent(network: Swarm, counters: Counters) -> None:
    """Close silent connections, for ever; counts `silent_closed`."""
    while True:
        await trio.sleep(LOOK_S)
        now = trio.current_time()
        async with trio.open_nursery() as closing:
            for connection in [one for some in network.connections.values() for one in some]:
                if now - connection.muxed_conn.secured_conn.heard.heard_s > SILENT_S_MAX:
                    counters.count("silent_closed")
                    closing.start_soon(_close, connection, counters)


async def _close(connection: INetConn, counters: Counters) -> None:
    with contained(counters, "close_error"), trio.move_on_after(CLOSE_S_MAX):
        await connection.close()
