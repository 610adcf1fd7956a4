"""libp2p's INotifee with every event ignored: a listener overrides the ones that it is about."""

import trio
from libp2p.abc import INetConn, INetwork


class Notifee:
    """By shape, not by inheritance: libp2p calls these methods and asks for nothing else."""

    async def connected(self, network: INetwork, connection: INetConn) -> None:
        """A connection has begun."""
        await trio.lowlevel.checkpoint()

    async def disconnected(self, network: INetwork, connection: INetConn) -> None:
        """A connection has ended."""
        await trio.lowlevel.checkpoint()

    async def _ignore(self, network: INetwork, subject: object) -> None:
        await trio.lowlevel.checkpoint()

    opened_stream = closed_stream = listen = listen_close = _ignore
