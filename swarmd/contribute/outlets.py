"""The two ways into the swarm: through the node that runs in the data directory, or a network process for as long as it takes."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from swarmd.clients.network import Network, Reach
from swarmd.control.client import ask

# The daemon itself gives up after 60 s.
DAEMON_S = 75.0
STATS_S = 10.0
# Seconds that a process waits after its last message. Each heartbeat of a second announces the message to peers that are no
# neighbours, and they ask for it.
LINGER_S = 4.0


@dataclass
class DaemonOutlet:
    """Through the control socket: the node publishes the message under its own key, and counts it."""

    socket: Path

    async def reach(self) -> Reach:
        """As the daemon knew it when it last looked, at most some seconds ago."""
        status = await trio.to_thread.run_sync(ask, self.socket, "/v1/status")
        stats = status["network"]["stats"]
        return Reach(stats.get("mesh_peers", 0), stats.get("subscribers", 0))

    async def publish(self, data: bytes) -> Reach:
        publish = partial(ask, self.socket, "/v1/publish", method="POST", body=data, timeout_s=DAEMON_S)
        return Reach(**await trio.to_thread.run_sync(publish))


@dataclass
class NetworkOutlet:
    """A network process of our own."""

    network: Network

    async def reach(self) -> Reach:
        """See `Outlet`."""
        return (await self.network.stats(within_s=STATS_S)).reach

    async def publish(self, data: bytes) -> Reach:
        return await self.network.publish(data)
