"""Attacks on the local port, as a web page in a browser of the machine or another user of it could make them."""

import resource
from contextlib import suppress

import trio

from tests.attack.ring import Ring
from tests.control.nasty import WHOLE

# As many as a browser opens to one host at once.
PAGE_CONNECTIONS = 6
# What used up the descriptors of a node once.
SQUATTERS_PER_VICTIM = 1200
SQUATTERS_IN_COMPANY = 100
# A connection that is closed is opened again after so long.
AGAIN_S = 1.0
OPENINGS = (
    b"",
    b"G",
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 500,
)


async def page(ring: Ring) -> None:
    """Bad targets, hosts, fields and bodies, over as many connections as a browser opens; and the largest answer without pause."""
    async with trio.open_nursery() as nursery:
        for port in ring.local_ports:
            for number in range(PAGE_CONNECTIONS):
                nursery.start_soon(_load, ring, port, number)


async def _load(ring: Ring, port: int, number: int) -> None:
    while True:
        for data in (*WHOLE[number::PAGE_CONNECTIONS], *WHOLE[1:3] * 20):
            with trio.move_on_after(2), suppress(OSError, trio.BrokenResourceError):
                ring.counted["dials"] += 1
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    await stream.send_all(data)
                    ring.counted["sent"] += 1
                    await stream.send_eof()
                    while await stream.receive_some(65536):
                        pass
        await trio.lowlevel.checkpoint()


async def squat(ring: Ring) -> None:
    """More connections than a process has descriptors, each silent or dripping; one that is closed is opened again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    async with trio.open_nursery() as nursery:
        for port in ring.local_ports:
            for number in range(SQUATTERS_IN_COMPANY if ring.in_company else SQUATTERS_PER_VICTIM):
                nursery.start_soon(hold_open, ring, port, OPENINGS[number % len(OPENINGS)], True)


async def hold_open(ring: Ring, port: int, opening: bytes, drips: bool = False) -> None:
    """Keep one connection open after some bytes, silent or dripping, and open it again whenever it is closed."""
    while True:
        with suppress(OSError, trio.BrokenResourceError):
            ring.counted["dials"] += 1
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                ring.counted["opened"] += 1
                ring.counted["held"] += 1
                try:
                    await stream.send_all(opening)
                    while not await _closed_within(stream, AGAIN_S):
                        await stream.send_all(b"x" * drips)
                finally:
                    ring.counted["held"] -= 1
        await trio.sleep(AGAIN_S)


async def _closed_within(stream: trio.SocketStream, seconds: float) -> bool:
    with trio.move_on_after(seconds):
        while await stream.receive_some(4096):
            pass
        return True
    return False
