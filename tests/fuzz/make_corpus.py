"""Writes the first corpus, from the vectors' material: `python -m tests.fuzz.make_corpus` from the repository's root.

Finds of long sessions are added by hand, under names that do not begin with `made-`.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import msgpack
from libp2p.identity.identify.pb.identify_pb2 import Identify
from libp2p.pubsub.pb import rpc_pb2
from libp2p.utils import encode_varint_prefixed
from multiaddr import Multiaddr

from swarmd.protocol.manifest import FOLDER as MANIFESTS
from swarmd.protocol.manifest import load_manifest
from swarmd.swarm.exchange import encode_frame
from tests.control.nasty import WHOLE
from tests.fuzz.behind import good_header
from tests.protocol.case import BODY, COMPRESSED_BODY, COMPRESSED_BOMB
from tests.protocol.cases import all_cases
from tests.protocol.craft import MANIFEST, block, checksummed, pack, plain_batch
from tests.protocol.make_vectors import SMALL

CORPUS = Path(__file__).parent / "corpus"
SEED_BYTES_MAX = 6000
HTTP_BYTES_MAX = 300
_ID = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo"


def main() -> None:
    """Write every seed anew."""
    for name, seeds in {
        "message": message_seeds(),
        "behind": behind_seeds(),
        "manifest": manifest_seeds(),
        "peers": peers_seeds(),
        "contribute": contribute_seeds(),
        "http": http_seeds(),
        "rpc": rpc_seeds(),
    }.items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("made-*"):
            old.unlink()
        for seed in seeds:
            if len(seed) <= SEED_BYTES_MAX:
                (folder / f"made-{hashlib.sha256(seed).hexdigest()[:12]}").write_bytes(seed)


def message_seeds() -> Iterator[bytes]:
    """One message for every rule, and all that are accepted."""
    seen: set[str] = set()
    for case in all_cases():
        if case.rule == "accepted" or case.rule not in seen:
            seen.add(case.rule)
            yield case.message


def behind_seeds() -> Iterator[bytes]:
    """Recipes of every kind, in several dresses."""
    content = pack(plain_batch())
    for dress in (0, 1, 4, 0x1C, 0x35):
        yield bytes([0, dress]) + content
        for edit in range(12):
            yield bytes([3, dress, edit * 5 % 23, edit % 5, edit]) + bytes(range(edit, edit + 6))
            yield bytes([4, dress, 1 + edit, edit % 5, edit]) + bytes(range(edit, edit + 6))
    for body in (BODY, COMPRESSED_BODY, COMPRESSED_BOMB, checksummed(content)):
        yield bytes([1, 0]) + body
        yield bytes([2, 0]) + pack(good_header(BODY, 0, MANIFEST))
    for start, unit, num, end in (
        (b"\x81\xa8rollouts\xdd\x00\x00\x04\x00", b"\x80", 262_000, b""),
        (b"\x81\xa8rollouts\xdc\x04\x00", b"\x90", 262_000, b""),
        (b"\x81\xa1x", b"\x91", 1000, b"\xc0"),
        (b"", b"\x81\xa1x", 500, b"\xc0"),
        (b"\x81\xa8rollouts\xdc\x04\x00", b"\xdc\x04\x00" + b"\xc0" * 200, 255, b""),
    ):
        fields = bytes([len(start)]) + start + bytes([len(unit)]) + unit + num.to_bytes(3, "big")
        yield bytes([6, 5]) + fields + bytes([len(end)]) + end
    for start in (b"\xa0\x00\x10\x00\x00", b"\x60\x00\x10", b"\x00\x58"):
        yield bytes([7, 1, len(start)]) + start + bytes([1]) + (131072).to_bytes(3, "big") + b"\x01\xff\x01x"
    yield bytes([7, 0, 5]) + b"\xa0\x08\x00\x00\x00" + bytes([1, 0, 0, 8, 0, 1, 1]) + b"x" + block(0, 0, b"")


def manifest_seeds() -> Iterator[bytes]:
    """The shipped ones and the vectors', in both forms, and what is almost one."""
    for path in sorted(MANIFESTS.glob("*.toml")):
        yield path.read_bytes()
        yield load_manifest(path).to_bytes()
    yield MANIFEST.to_bytes()
    yield SMALL.to_bytes()
    yield pack({"version": 2})
    yield pack({"version": 1, "name": "x" * 33})
    yield b"\x81\xa4name" + b"\x91" * 1000 + b"\xc0"
    yield b"a = " + b"[" * 3000
    yield b"version = " + b"9" * 5000


def peers_seeds() -> Iterator[bytes]:
    """Frames as nodes send them, and as they must not."""
    addresses = [
        f"/ip4/203.0.113.7/tcp/4810/p2p/{_ID}",
        f"/ip6/2a00:1450::1/tcp/4810/p2p/{_ID}",
        f"/dns4/node.example/tcp/4810/p2p/{_ID}",
        f"/ip4/0.0.0.0/tcp/4810/p2p/{_ID}",
    ]
    yield encode_frame(addresses)
    yield encode_frame([])
    for value in (
        {
            "addresses": ["", "/", "/ip4", f"/ip4/1.2.3.4/udp/1/quic-v1/p2p/{_ID}", 7, None],
            "agent": "\x1b[2Jx\n",
        },
        {"addresses": addresses * 60, "agent": "x" * 5000},
        {"addresses": {}, "agent": 1},
        {"agent": ["a"]},
        [],
    ):
        body = bytes(msgpack.packb(value))
        yield len(body).to_bytes(2, "big") + body
    for body in (
        b"\x82\xa9addresses\x90\xa5agent" + b"\x91" * 1000 + b"\xc0",
        b"\xff",
        b"\xdf\xff\xff\xff\xff",
        b"",
    ):
        yield len(body).to_bytes(2, "big") + body
    yield b"\xff\xff" + b"\x00" * 30


def contribute_seeds() -> Iterator[bytes]:
    """Lines as people write them."""
    good = {"dataset": "gcd", "counter": 40, "question": "?", "completions": ["<answer>1</answer>", "2"]}
    yield json.dumps(good).encode() + b"\n"
    yield json.dumps(good | {"completions": []}).encode() + b"\n\n" + json.dumps(good).encode()
    for change in (
        {"counter": True},
        {"counter": -1},
        {"dataset": 1},
        {"completions": ["\x00", 1]},
        {"\x1b": 1},
    ):
        yield json.dumps(good | change).encode()
    yield b'{"dataset": "gcd", "counter": 1, "completions": ["\\ud800"]}'
    yield b'{"dataset": "gcd", "dataset": "x", "counter": NaN}'
    yield b'{"counter": ' + b"9" * 5000 + b"}"
    yield b"[" * 2000
    yield b"\xff\xfe\n\n[]\n7"


def http_seeds() -> Iterator[bytes]:
    """What is asked of the local sockets: short requests, to one socket and the other."""
    short = [request for request in WHOLE if len(request) <= HTTP_BYTES_MAX]
    for number, request in enumerate(short):
        yield bytes([number & 1 | 0xF0]) + request


def rpc_seeds() -> Iterator[bytes]:
    """RPCs as nodes send them, and with a field too many; answers to identify."""
    message = {
        "topicIDs": ["topic"],
        "from_id": bytes(38),
        "seqno": bytes(8),
        "signature": bytes(64),
        "data": b"data",
    }
    ids = {"messageIDs": [bytes(46)] * 3}
    for content in (
        {"publish": [message]},
        {"publish": [message | {"key": bytes(36)}, message | {"topicIDs": ["topic", "other"]}]},
        {"subscriptions": [{"subscribe": True, "topicid": "topic"}], "senderRecord": bytes(200)},
        {"control": {"graft": [{"topicID": "topic"}], "prune": [{"topicID": "topic", "backoff": 20}]}},
        {"control": {"ihave": [ids | {"topicID": "topic"}], "iwant": [ids], "idontwant": [ids]}},
    ):
        packed = rpc_pb2.RPC(**content).SerializeToString()
        yield b"\0" + encode_varint_prefixed(packed)
        yield b"\0" + encode_varint_prefixed(packed + b"\x7a\x03new") * 2
    yield bytes(300)
    for address in (b"", Multiaddr("/ip4/203.0.113.7/tcp/4901").to_bytes(), b"\xff" * 20):
        yield b"\1" + Identify(observed_addr=address, protocols=["/x"]).SerializeToString()


if __name__ == "__main__":
    main()
