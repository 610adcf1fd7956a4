"""libp2p's INotifee with every event ignored: a listener overrides the events that it is about."""

import trio
from libp2p.abc import INetConn, INetwork, INotifee


class Notifee(INotifee):
    """Ignores every event."""

    async def connected(self, network: INetwork, connection: INetConn) -> None:
        await trio.lowlevel.checkpoint()

    async def disconnected(self, network: INetwork, connection: INetConn) -> None:
        await trio.lowlevel.checkpoint()

    async def _ignore(self, network: INetwork, subject: object) -> None:
        await trio.lowlevel.checkpoint()

    opened_stream = closed_stream = listen = listen_close = _ignore  # type: ignore[assignment]  # other names of arguments
