"""Stock counts no bytes. It also does not know the address of a peer that came over IPv6: it takes socket names of two parts only,
and those of IPv6 have four.
"""

from libp2p.abc import IHost, ISecureConn
from libp2p.io.abc import ReadWriteCloser
from libp2p.io.trio import TrioTCPStream
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.peer.id import ID

from swarmd.swarm.hardening.counters import Counters

BYTES_IN, BYTES_OUT = "bytes_in", "bytes_out"


class CountedStream(ReadWriteCloser):
    """A socket whose bytes are counted as they pass, both ways, encryption and framing included (TCP's own headers are not)."""

    def __init__(self, stream: ReadWriteCloser, counters: Counters) -> None:
        self._stream, self._counters = stream, counters

    async def read(self, n: int | None = None) -> bytes:
        data = bytes(await self._stream.read(n))
        self._counters.count(BYTES_IN, len(data))
        return data

    async def write(self, data: bytes) -> None:
        self._counters.count(BYTES_OUT, len(data))
        await self._stream.write(data)

    async def close(self) -> None:
        await self._stream.close()

    def get_remote_address(self) -> tuple[str, int] | None:
        return remote_address(self._stream)


def remote_address(stream: ReadWriteCloser) -> tuple[str, int] | None:
    """Host and port of the other end, in IPv4 and IPv6; None where it is gone."""
    known: tuple[str, int] | None = stream.get_remote_address()
    if known is not None or not isinstance(stream, TrioTCPStream):
        return known
    try:
        host, port, *_ = stream.stream.socket.getpeername()
    except (OSError, ValueError):
        return None
    return str(host), int(port)


def count_bytes(host: IHost, counters: Counters) -> None:
    """Count the bytes of all connections of a host from now on, as `bytes_in` and `bytes_out`."""
    upgrader = host.get_network().upgrader
    upgrade = upgrader.upgrade_security

    async def upgrade_counted(
        raw: RawConnection, is_initiator: bool, peer_id: ID | None = None
    ) -> ISecureConn:
        raw.stream = CountedStream(raw.stream, counters)
        secured: ISecureConn = await upgrade(raw, is_initiator, peer_id)
        return secured

    upgrader.upgrade_security = upgrade_counted
