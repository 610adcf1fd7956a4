"""Taken ports: py-libp2p listens with SO_REUSEPORT and only logs a failure, so two daemons share a port without a word,
and a crashed host leaves a dead listener behind that keeps stealing connections from its successor.
"""

from collections.abc import Iterable

import libp2p.transport.tcp.tcp as stock
import trio
from libp2p.abc import IHost

from swarmd.errors import PortTaken

CLOSE_S_MAX = 5.0
STOCK_OPEN = stock._open_reuseport_listeners


async def open_exclusive(host: str | None, port: int) -> list[trio.SocketListener]:
    """Listen sockets nobody else can share; raises `OpenConnectionError`, as the stock function does."""
    try:
        return list(await trio.open_tcp_listeners(port, host=host, backlog=128))
    except OSError as error:
        raise stock.OpenConnectionError(f"Failed to listen on {host}:{port}: {error}") from error


def install_exclusive_listeners() -> None:
    """From now on every TCP listener of this process owns its port.

    Hole punching, which wants a shared port, then dials from another one; swarmd does not punch holes.
    """
    stock._open_reuseport_listeners = open_exclusive


def assert_listening(host: IHost, addresses: Iterable[object]) -> None:
    """Check that the host really listens on every address it was asked to (multiaddrs), once it runs.

    Raises:
        PortTaken: it does not; stock only logs that.
    """
    listeners = host.get_network().listeners
    for address in addresses:
        listener = listeners.get(str(address))
        if listener is None or not listener.get_addrs():
            raise PortTaken(
                f"Cannot listen on {address}.",
                "Another program uses this port, or the address is not one of this machine.",
                "Choose another port, or stop the other program.",
            )


async def close_listeners(host: IHost) -> None:
    """Close every listen socket of a host, also when the host crashed or this task is being cancelled; at most 5 s."""
    with trio.move_on_after(CLOSE_S_MAX, shield=True):
        for listener in list(host.get_network().listeners.values()):
            await listener.close()
