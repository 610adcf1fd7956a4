"""Frames of `/swarmd/peers/1`, and what a reader has to make of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from swarmd.protocol.signing import Identity
from tests.protocol.craft import ALICE, MALLORY, pack

NODE = f"/ip4/203.0.113.7/tcp/4810/p2p/{ALICE.peer_id}"
OTHER = f"/ip4/203.0.113.8/tcp/4811/p2p/{MALLORY.peer_id}"


@dataclass(frozen=True)
class PeerCase:
    """A frame with its length, and the addresses and agent that count; None: it is refused."""

    name: str
    frame: bytes
    told: tuple[list[str], str] | None


def peer_cases() -> list[PeerCase]:
    """All of them."""
    return [*_read(), *_refused()]


def framed(content: Any) -> bytes:
    """Length and msgpack (bytes are taken as they are)."""
    body = content if isinstance(content, bytes) else pack(content)
    return len(body).to_bytes(2, "big") + body


def _read() -> Iterator[PeerCase]:
    peers = [f"/ip4/203.0.113.9/tcp/{4000 + i}/p2p/{ALICE.peer_id}" for i in range(40)]
    for name, content, told in (
        ("two addresses", {"addresses": [NODE, OTHER], "agent": "x/1"}, ([NODE, OTHER], "x/1")),
        ("nothing to say", {"addresses": [], "agent": ""}, ([], "")),
        ("no agent", {"addresses": [NODE]}, ([NODE], "")),
        ("an agent that is a number", {"addresses": [], "agent": 7}, ([], "")),
        ("an agent that is nil", {"addresses": [], "agent": None}, ([], "")),
        ("an agent that is bytes", {"addresses": [], "agent": b"x"}, ([], "")),
        (
            "an agent of arrays, 100 deep",
            b"\x82\xa9addresses\x90\xa5agent" + b"\x91" * 60 + b"\xc0",
            ([], ""),
        ),
        ("an agent of 64 characters", {"addresses": [], "agent": "y" * 64}, ([], "y" * 64)),
        ("16,384 bytes", {"addresses": [], "agent": "x" * (16_384 - 21)}, ([], "x" * 64)),
        ("an agent of 65 characters", {"addresses": [], "agent": "y" * 65}, ([], "y" * 64)),
        ("an agent for a terminal", {"addresses": [], "agent": "\x1b[2J\u202e\né~"}, ([], "?[2J???~")),
        ("a field of a later version", {"addresses": [NODE], "agent": "x", "z": [{}]}, ([NODE], "x")),
        ("keys in another order", {"agent": "x", "addresses": [NODE]}, ([NODE], "x")),
        ("33 addresses, 32 count", {"addresses": peers[:33], "agent": ""}, (peers[:32], "")),
        ("32 that are none count too", {"addresses": [""] * 32 + [NODE], "agent": ""}, ([], "")),
        ("eight fields", {"addresses": [NODE], **{f"f{i}": i for i in range(7)}}, ([NODE], "")),
        ("256 entries", {"addresses": [NODE] + [0] * 255, "agent": ""}, ([NODE], "")),
        ("bytes behind the frame", None, ([NODE], "")),
    ):
        frame = framed({"addresses": [NODE]}) + b"\x00" if content is None else framed(content)
        yield PeerCase(name, frame, told)
    name = "a." * 125 + "bcd"  # 253 characters, the most that a name may have
    usable = [
        f"/dns4/{name}/tcp/65535/p2p/{ALICE.peer_id}",
        f"/dns4/{name}./tcp/4810/p2p/{ALICE.peer_id}",
        f"/ip6/2001:db8::7/tcp/1/p2p/{ALICE.peer_id}",
        f"/dns4/node.example/tcp/65535/p2p/{ALICE.peer_id}",
        f"/dns/a/tcp/4810/p2p/{ALICE.peer_id}",
        f"/dns6/xn--nde-sna.example/tcp/4810/p2p/{Identity.from_seed(bytes(32)).peer_id}",
        f"/ip4/127.0.0.1/tcp/0/p2p/{ALICE.peer_id}",
    ]
    yield PeerCase("every form that can be dialled", framed({"addresses": usable}), (usable, ""))
    for name, entry in {
        "nothing": "",
        "no text": 7,
        "nil": None,
        "bytes": NODE.encode(),
        "an array": [NODE],
        "no peer id": "/ip4/203.0.113.7/tcp/4810",
        "half a peer id": NODE[:-20],
        "a peer id with a letter that base58 has not": NODE[:-1] + "0",
        "another transport": f"/ip4/203.0.113.7/udp/4810/quic-v1/p2p/{ALICE.peer_id}",
        "a relay": f"{NODE}/p2p-circuit/p2p/{MALLORY.peer_id}",
        "a web socket": f"/ip4/203.0.113.7/tcp/4810/ws/p2p/{ALICE.peer_id}",
        "a number too large for a byte": f"/ip4/203.0.113.256/tcp/4810/p2p/{ALICE.peer_id}",
        "a port too large": f"/ip4/203.0.113.7/tcp/65536/p2p/{ALICE.peer_id}",
        "a name with a letter beyond ASCII": f"/dns4/nöde.example/tcp/4810/p2p/{ALICE.peer_id}",
        "a name with an escape": f"/dns4/\x1b[2J/tcp/4810/p2p/{ALICE.peer_id}",
        "a label that begins with a hyphen": f"/dns4/-a.example/tcp/4810/p2p/{ALICE.peer_id}",
        "a label that ends with a hyphen": f"/dns4/a-.example/tcp/4810/p2p/{ALICE.peer_id}",
        "a blank in front": " " + NODE,
        "a name of 254 characters": f"/dns4/{'a.' * 126}bc/tcp/4810/p2p/{ALICE.peer_id}",
        "351 characters": f"/dns4/{'a.' * 139}b/tcp/4810/p2p/{ALICE.peer_id}",
    }.items():
        yield PeerCase(
            f"an entry that cannot be used: {name}", framed({"addresses": [entry, OTHER]}), ([OTHER], "")
        )


def _refused() -> Iterator[PeerCase]:
    for name, frame in {
        "nothing": b"",
        "half a length": b"\x00",
        "only a length": b"\x00\x05",
        "cut": framed({"addresses": [NODE]})[:-1],
        "16,385 bytes": framed(pack({"addresses": [], "agent": "x" * (16_385 - 21)})),
        "of no size": b"\x00\x00",
        "no map": framed([NODE]),
        "no addresses": framed({"agent": "x"}),
        "addresses that are a text": framed({"addresses": NODE}),
        "addresses that are a map": framed({"addresses": {}}),
        "a byte behind the map": framed(pack({"addresses": []}) + b"\x00"),
        "nine fields": framed({"addresses": [], **{f"f{i}": i for i in range(8)}}),
        "257 entries": framed({"addresses": [0] * 257}),
        "a key that is a number": framed({"addresses": [], 1: 1}),
        "an extension type": framed(b"\x81\xa9addresses\xd4\x05x"),
        "an empty extension type": framed(b"\x82\xa9addresses\x90\xa5agent\xc7\x00\x05"),
        "text that is no UTF-8": framed(b"\x82\xa9addresses\x90\xa5agent\xa1\xff"),
        "4 billion addresses": framed(b"\x81\xa9addresses\xdd\xff\xff\xff\xff"),
        "the byte msgpack never uses": framed(b"\xc1"),
    }.items():
        yield PeerCase(f"refused: {name}", frame, None)
