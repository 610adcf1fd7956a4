"""Attacks by the form of a message: lies in header and body, theft, repetition, bombs, sizes, and plain garbage."""

import os
import random
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import trio
from libp2p.pubsub.pb import rpc_pb2
from libp2p.utils import encode_varint_prefixed

from swarmd.protocol.signing import Identity
from swarmd.protocol.types import SignedBatch
from swarmd.protocol.wire import WireError, decode_message, encode_message
from tests.attack import craft
from tests.attack.peer import HostilePeer
from tests.attack.ring import Act, Ring


async def forged_questions(ring: Ring) -> None:
    """Addresses that are no addresses, and content that no message may have; all properly signed."""

    def act(body: bytes, changed: dict[str, Any]) -> Act:
        return lambda peer: peer.send(
            craft.sealed(peer.identity, body, **{"swarm": ring.manifest.digest, **changed})
        )

    while True:
        await ring.in_turns(act(*forgery) for forgery in _forgeries(ring))


def _forgeries(ring: Ring) -> list[tuple[bytes, dict[str, Any]]]:
    """Bodies, each with what its header says otherwise than usual (counters 0 to 4095)."""
    good, largest = ["<answer>1</answer>", "2"], 2**53 - 1
    base = ring.counters(64) % 4000

    def one(dataset: Any = 0, counter: Any = base, **more: Any) -> dict[str, Any]:
        return {**craft.rollout(dataset, counter, good), **more}

    def claims(**claims: Any) -> bytes:
        return craft.body_of([craft.rollout(0, base + 5, good, **claims)])

    of = craft.body_of
    return [
        (of([one(dataset=len(ring.manifest.datasets))]), {}),
        (of([one(dataset=-1)]), {}),
        (of([one(dataset=True)]), {}),
        (of([one(dataset="chain_sum")]), {}),
        (of([one(counter=4096)]), {}),
        (of([one(counter=-1)]), {}),
        (of([one(counter=1.0)]), {}),
        (of([one(counter=2**63)]), {"counter_last": 2**63}),
        (of([one(counter=largest)]), {"counter_first": largest, "counter_last": largest}),
        (of([one()]), {"counter_last": largest}),
        (of([one()]), {"counter_first": 5, "counter_last": 1}),
        (of([one(), one()]), {}),
        (of([]), {}),
        (of([one()] * 2000), {}),
        (of([one(seed=7)]), {}),
        (of([one(question="1+1?", answer="2")]), {}),
        (of([one(rewards=[1.0, 0.0])]), {}),
        (of([one()], reward=1.0), {}),
        (of([craft.rollout(0, base, [])]), {}),
        (of([craft.rollout(0, base, ["x"])]), {}),
        (of([craft.rollout(0, base, ["x"] * 300)]), {}),
        (of([craft.rollout(0, base, ["x" * 16_385, "y"])]), {}),
        (claims(logprob_sum=1e308, num_tokens=1), {}),
        (claims(logprob_sum=float("nan")), {}),
        (claims(logprob_sum=-1e9, num_tokens=0), {}),
        (claims(num_tokens=2**20), {}),
        (claims(num_tokens=-5), {}),
        (of([one()]), {"version": 2}),
        (of([one()]), {"version": True}),
        (of([one()]), {"swarm": b"\1" * 32}),
        (of([one()]), {"swarm": None}),
        (of([one()]), {"policy": "\x1b]0;title\x07\x1b[2J"}),
        (of([one()]), {"policy": "p" * 500}),
        (of([one()]), {"policy_version": 2**60}),
        (of([one()]), {"created_ms": craft.now_ms() + 3_600_000}),
        (of([one()]), {"created_ms": craft.now_ms() - 3_600_000}),
        (of([one()]), {"created_ms": -1}),
        (of([one()]), {"body_size": 1}),
        (of([one()]), {"body_sha256": b"\0" * 32}),
        (of([one()]), {"author": b"\0" * 32}),
        (of([one()]), {"reward": 1.0}),
    ]


async def stolen_and_replayed(ring: Ring) -> None:
    """What honest nodes send, under a thief's name, altered, late, early, or once more."""
    async with ring.peer() as listener:
        async for signed in _heard(ring, listener):

            def act(number: int, signed: SignedBatch = signed) -> Act:
                return lambda peer: peer.send(_thefts(ring, peer.identity, signed)[number])

            await ring.in_turns(map(act, range(NUM_THEFTS)))


async def _heard(ring: Ring, peer: HostilePeer) -> AsyncIterator[SignedBatch]:
    """Messages of others as they come; the last again where nothing new came."""
    last: SignedBatch | None = None
    while True:
        if peer.heard:
            try:
                last = decode_message(peer.heard.popleft(), ring.manifest.limits)
                ring.counted["overheard"] += 1
            except WireError:  # another attacker's
                continue
        else:
            await trio.sleep(0.2)
        if last is not None and last.body is not None:
            yield last


NUM_THEFTS = 10


def _thefts(ring: Ring, thief: Identity, signed: SignedBatch) -> list[bytes]:
    header, body = signed.header, signed.body or b""
    fields = {
        "counter_first": header.counter_first,
        "counter_last": header.counter_last,
        "swarm": header.swarm,
    }
    at = ring.rng.randrange(len(body))
    flipped = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
    renamed = msgpack.packb(replace_author(signed, thief), use_bin_type=True)
    return [
        signed.data,
        craft.sealed(thief, body, **fields),
        craft.sealed(thief, body, author=header.author, **fields),
        encode_message(renamed, signed.signature, body),
        encode_message(signed.header_bytes, thief.sign(signed.header_bytes), body),
        encode_message(signed.header_bytes, signed.signature, flipped),
        encode_message(signed.header_bytes, signed.signature, body[:-1]),
        encode_message(signed.header_bytes, signed.signature, None),
        craft.sealed(thief, body, created_ms=craft.now_ms() - 700_000, **fields),
        craft.sealed(thief, body, created_ms=craft.now_ms() + 90_000, **fields),
    ]


def replace_author(signed: SignedBatch, thief: Identity) -> dict[str, Any]:
    """The header's fields with the thief's key in place of the author's."""
    return signed.header.model_copy(update={"author": thief.public_key}).model_dump(exclude_defaults=True)


async def bombs(ring: Ring) -> None:
    """Each bomb under a true signature, and under a false one."""
    made, other = [body for body in craft.bombs() if len(body) < 59_000], ring.identity(0)

    def act(body: bytes, signer: Identity | None) -> Act:
        return lambda peer: peer.send(craft.sealed(peer.identity, body, signer=signer))

    while True:
        await ring.in_turns(act(body, signer) for body in made for signer in (None, other))


async def malformed(ring: Ring) -> None:
    """Bytes that are no message, no RPC, or too much of either."""
    whole = craft.empty_batch(ring.identity(0), ring.manifest, 0)
    kinds: list[Act] = [
        lambda peer: peer.send(b""),
        lambda peer: peer.send(os.urandom(ring.rng.randint(1, 2000))),
        lambda peer: peer.send(whole[: ring.rng.randrange(len(whole))]),
        lambda peer: peer.send(_flipped(ring.rng, whole)),
        lambda peer: peer.send(whole + os.urandom(200_000)),
        lambda peer: peer.send(os.urandom(60_001)),
        lambda peer: peer.send(whole, topic="/swarmd/another"),
        lambda peer: peer.write(encode_varint_prefixed(os.urandom(500))),
        lambda peer: peer.write(b"\xff" * 12),
        lambda peer: peer.write(encode_varint_prefixed(b"")),
        lambda peer: peer.write(b"\x80\x80\x80\x08" + os.urandom(50_000)),  # an RPC of 16 MiB, announced
        lambda peer: peer.send_rpc(_crowded_rpc()),
        lambda peer: peer.send_rpc(_unsigned_rpc(ring, whole)),
        lambda peer: peer.send_rpc(rpc_pb2.RPC(senderRecord=os.urandom(300))),
    ]
    while True:
        await ring.in_turns(kinds)


def _flipped(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _crowded_rpc() -> Any:
    """Subscriptions, grafts, prunes, offers and requests by the thousand."""
    rpc = rpc_pb2.RPC()
    for number in range(1000):
        rpc.subscriptions.add(subscribe=True, topicid=f"t{number}")
        rpc.control.graft.add(topicID=f"t{number}")
        rpc.control.prune.add(topicID=f"t{number}", backoff=2**40)
    rpc.control.ihave.add(topicID="t", messageIDs=[os.urandom(20) for _ in range(2000)])
    rpc.control.iwant.add(messageIDs=[os.urandom(20) for _ in range(2000)])
    return rpc


def _unsigned_rpc(ring: Ring, data: bytes) -> Any:
    """A message in the name of somebody else, and one without any name."""
    topic, victim = ring.manifest.topic, ring.victims[0].rsplit("/", 1)[1]
    rpc = rpc_pb2.RPC()
    rpc.publish.add(
        data=data, topicIDs=[topic], from_id=victim.encode(), seqno=os.urandom(8), signature=os.urandom(64)
    )
    rpc.publish.add(data=data, topicIDs=[topic])
    rpc.publish.add(
        data=data, topicIDs=[topic] * 100, from_id=b"\0", seqno=b"", key=os.urandom(36), signature=b"\1"
    )
    return rpc
