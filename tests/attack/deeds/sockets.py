"""Attacks beneath the messages: connections that say nothing, say nonsense, or stop listening."""

import itertools
import os
import signal
from contextlib import suppress
from typing import Any

import msgpack
import trio

from tests.attack.deeds.port import hold_open
from tests.attack.peer import HostilePeer
from tests.attack.ring import Ring

PROTOCOLS = (
    "/meshsub/1.2.0",
    "/meshsub/1.1.0",
    "/ipfs/id/1.0.0",
    "/ipfs/id/push/1.0.0",
    "/ipfs/ping/1.0.0",
    "/swarmd/peers/1",
    "/no/such/protocol/1",
)
MULTISTREAM = b"\x13/multistream/1.0.0\n"
HALF_OPEN_PER_VICTIM = 100
HALF_OPEN_IN_COMPANY = 32  # half of the handshakes that a node has under way at once
STREAMS_MAX = 300
# Twenty subscribers that stop reading take a place in the mesh first: some heartbeats.
SETTLE_S = 6.0


async def slow_readers(ring: Ring) -> None:
    """Twenty peers join the topic, and then their process is stopped: sockets open, nobody reads. The harness ends it."""
    async with ring.peers(20) as peers:
        await trio.sleep(SETTLE_S)
        ring.counted["held"] = sum(peer.num_connected for peer in peers)
        ring.report()
        os.kill(os.getpid(), signal.SIGSTOP)
        await trio.sleep_forever()


async def half_open(ring: Ring) -> None:
    """As many sockets as are let in, each silent, or silent after some bytes of a handshake; a closed one is opened again.

    In company fewer: all of them would keep the other attackers out, too.
    """
    openings = (
        b"",
        MULTISTREAM,
        MULTISTREAM + b"\x07/noise\n",
        MULTISTREAM + b"\x07/noise\n\x00\x20" + os.urandom(16),
    )
    async with trio.open_nursery() as nursery:
        for victim in ring.victims:
            for number in range(HALF_OPEN_IN_COMPANY if ring.in_company else HALF_OPEN_PER_VICTIM):
                nursery.start_soon(hold_open, ring, port_of(victim), openings[number % len(openings)])


async def garbage_everywhere(ring: Ring) -> None:
    """Nonsense on every protocol, in yamux, in Noise, under Noise; and answers that lie to whoever asks this peer."""
    _lie_about_names()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_garbage_under_noise, ring)
        async with ring.peer() as peer, ring.peer(1, listens=False) as other:
            peer.stack.host.set_stream_handler("/swarmd/peers/1", _lie_about_peers)
            nursery.start_soon(_garbage_in_yamux, ring, other)
            for protocol in itertools.cycle(PROTOCOLS):
                for victim in peer.victims:
                    with trio.move_on_after(2), suppress(Exception):
                        await _garbage_on(ring, peer, victim, protocol)
                await trio.sleep(0.05)


async def _garbage_on(ring: Ring, peer: HostilePeer, victim: Any, protocol: str) -> None:
    stream = await peer.open(victim, protocol)
    ring.counted["streams"] += 1
    size = ring.rng.choice([1, 32, 33, 1000, 70_000])
    kinds = [
        os.urandom(size),
        b"\xff" * size,
        b"\x00" * size,
        size.to_bytes(2, "big", signed=False) + msgpack.packb([[]] * 100) if size < 2**16 else b"",
        b"\x40\x00" + b"\x91" * 16_384,
    ]
    await stream.write(ring.rng.choice(kinds))
    ring.counted["sent"] += 1
    if ring.rng.random() < 0.3:
        await stream.reset()
    elif ring.counted["left open"] >= STREAMS_MAX:
        await stream.close()
    else:
        ring.counted["left open"] += 1


async def _garbage_in_yamux(ring: Ring, peer: HostilePeer) -> None:
    """Frames that yamux does not have, through Noise; the connection is lost, and dialled again."""
    frames = (
        os.urandom(500),
        b"\x00\x00\x00\x00" + (7).to_bytes(4, "big") + (2**31).to_bytes(4, "big"),
        b"\x00\x01\x00\x01" + (1).to_bytes(4, "big") + b"\xff\xff\xff\xff",
        b"".join(b"\x00\x00\x00\x01" + (n * 2 + 1).to_bytes(4, "big") + b"\0\0\0\0" for n in range(1000)),
        b"\x00\x02\x00\x01" + b"\0" * 8,
        b"\x00\x03\x00\x00" + b"\0" * 8,
    )
    for number in itertools.count():
        for victim in peer.victims:
            with trio.move_on_after(2), suppress(Exception):
                for connection in peer.stack.host.get_network().get_connections(victim.peer_id):
                    await connection.muxed_conn.secured_conn.write(frames[number % len(frames)])
                    ring.counted["sent"] += 1
        await trio.sleep(0.5)


async def _garbage_under_noise(ring: Ring) -> None:
    """Nonsense where a handshake should be."""
    openings = (
        lambda: os.urandom(300),
        lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        lambda: MULTISTREAM + b"\xff\xff\xff\x7f" + b"a" * 1000,
        lambda: MULTISTREAM + b"\x0b/plaintext\n" * 50,
        lambda: MULTISTREAM + b"\x07/noise\n" + b"\xff\xff" + os.urandom(65_535),
        lambda: MULTISTREAM + b"\x07/noise\n" + b"\x00\x20" + os.urandom(32) + b"\x00\x00" * 200,
        lambda: b"\x13/multistream/1.0.0\n" * 1000,
    )
    for number in itertools.count():
        for victim in ring.victims:
            with trio.move_on_after(3), suppress(OSError, trio.BrokenResourceError):
                ring.counted["dials"] += 1
                async with await trio.open_tcp_stream("127.0.0.1", port_of(victim)) as stream:
                    await stream.send_all(openings[number % len(openings)]())
                    ring.counted["sent"] += 1
                    with trio.move_on_after(0.3):
                        await stream.receive_some(4096)
        await trio.sleep(0.1)


def _lie_about_names() -> None:
    """Terminal control sequences where this process tells its program's name."""
    from libp2p.identity.identify import identify

    from swarmd.swarm import exchange

    identify.AGENT_VERSION = exchange.AGENT = EVIL_NAME


EVIL_NAME = "\x1b]0;owned\x07\x1b[2J\x1b[31m../../etc/\u202enode"


async def _lie_about_peers(stream: Any) -> None:
    """Hints that lead nowhere, to the asker itself, and to places that a stranger must not have it dial."""
    someone = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
    hints = [f"/ip4/127.0.0.1/tcp/{port}/p2p/{someone}" for port in (1, 22, 80)]
    hints += [
        f"/ip4/169.254.169.254/tcp/80/p2p/{someone}",
        "/dns4/example.invalid/tcp/1",
        EVIL_NAME,
        "x" * 5000,
    ]
    body = msgpack.packb({"addresses": hints, "agent": EVIL_NAME})
    with suppress(Exception):
        await stream.write(len(body).to_bytes(2, "big") + body)
        await stream.close()


def port_of(address: str) -> int:
    """The TCP port of a multiaddr."""
    return int(address.split("/tcp/")[1].split("/")[0])
