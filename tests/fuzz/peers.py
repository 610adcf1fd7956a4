"""Target: what the other end of `/swarmd/peers/1` sends."""

from typing import Any

from swarmd.swarm.addresses import ADDRESS_BYTES_MAX, PeerAddress, parse
from swarmd.swarm.exchange import ADDRESSES_MAX, BadFrame, Frame, read_question
from swarmd.swarm.hearsay import PORT_MIN, acceptable, believable
from tests.fuzz.finding import require
from tests.fuzz.meter import METER

HOSTS = ("127.0.0.1", "192.168.1.7", "8.8.8.8", "2a00:1450::1")


class _Stream:
    """Gives the bytes in pieces, then nothing. `read` never waits, so no event loop is needed."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place, self._piece = data, 0, 1

    async def read(self, size: int) -> bytes:
        start, self._piece = self._place, self._piece * 7
        self._place += min(size, self._piece)
        return self._data[start : self._place]


def check(data: bytes) -> None:
    """Read one frame and decide about every address in it.

    Raises:
        Finding: a promise is broken.
        Exception: anything but BadFrame that the reader raised.
    """
    frame = METER.timed(lambda: _read(data))
    if frame is None:
        return
    require(len(frame.agent) <= 64 and frame.agent.isascii(), f"agent {frame.agent!r:.200}")
    require(frame.agent.isprintable(), f"agent {frame.agent!r:.200}")
    require(len(frame.addresses) <= ADDRESSES_MAX, f"{len(frame.addresses)} addresses")
    for address in frame.addresses:
        _check_address(address)
    for host in HOSTS:
        passed = believable(frame.addresses, frame.addresses[0].peer_id if frame.addresses else "", host)
        require(passed is None or passed.host == host, "an address of a third party is passed on")


def _read(data: bytes) -> Frame | None:
    reading: Any = read_question(_Stream(data))
    try:
        reading.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    except BadFrame:
        return None
    raise AssertionError("the stream never waits")


def _check_address(address: PeerAddress) -> None:
    text = address.text
    require(text.isascii() and text.isprintable(), f"address {text!r:.400}")
    require(len(text) <= 2 * ADDRESS_BYTES_MAX, f"address of {len(text)} characters")
    require(0 <= address.port <= 65535, f"port {address.port}")
    require(parse(text) == address, f"{text!r} is not read back as itself")
    for host in HOSTS:
        for is_near in (lambda host: False, lambda host: True):
            is_taken = acceptable(address, host, is_near=is_near, own_is_public=False)
            require(not is_taken or address.port >= PORT_MIN, f"port {address.port} on a stranger's word")
