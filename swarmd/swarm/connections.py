"""Who is connected, and since when: by the first connection to a peer and the end of the last."""

from collections.abc import Callable

import trio
from libp2p.abc import INetConn, INetwork
from libp2p.network.swarm import Swarm

from swarmd.clients.network import Peer
from swarmd.swarm.accounts import Accounts
from swarmd.swarm.host import Stack, host_of_connection
from swarmd.swarm.notifee import Notifee


class Connections(Notifee):
    """Peers by id, with the time of their first connection.

    Args:
        changed: told of each peer that comes or goes.
    """

    def __init__(self, changed: Callable[..., None]) -> None:
        self._changed = changed
        self.since: dict[str, float] = {}

    async def connected(self, network: INetwork, connection: INetConn) -> None:
        peer_id = str(connection.muxed_conn.peer_id)
        if peer_id not in self.since:
            self.since[peer_id] = trio.current_time()
            self._changed(peer_id, connected=True)

    async def disconnected(self, network: INetwork, connection: INetConn) -> None:
        peer = connection.muxed_conn.peer_id
        if not network.get_connections(peer) and self.since.pop(str(peer), None) is not None:
            self._changed(str(peer), connected=False)

    def peers(self, stack: Stack, accounts: Accounts, agent_of: Callable[[str], str]) -> list[Peer]:
        network: Swarm = stack.host.get_network()
        found = []
        for peer in list(network.connections):
            peer_id, connections, now = str(peer), network.get_connections(peer), trio.current_time()
            account = accounts.get(peer_id)
            found.append(
                Peer(
                    peer_id=peer_id,
                    direction=connections[0].direction.name.lower() if connections else "unknown",
                    address=host_of_connection(network, peer) or "",
                    agent=agent_of(peer_id),
                    rtt_s=connections[0].muxed_conn.rtt() if connections else 0.0,
                    connected_s=now - self.since.get(peer_id, now),
                    accepted=account.accepted if account else 0,
                    ignored=account.ignored if account else 0,
                    rejected=account.rejected if account else 0,
                )
            )
        return found
