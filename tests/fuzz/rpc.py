"""Target: what a peer writes on a pubsub stream, or answers to identify (first byte odd)."""

from typing import Any

from google.protobuf.message import DecodeError
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening.identify import OBSERVED_BYTES_MAX, observed_address
from swarmd.swarm.hardening.rpc_bounds import OutOfBounds
from swarmd.swarm.hardening.rpc_bounds import check as check_bounds
from swarmd.swarm.hardening.rpc_frames import FrameBuffer, Misframed
from tests.fuzz.finding import require
from tests.fuzz.meter import METER

TOPIC = "topic"
FRAME_BYTES_MAX = 65_536
# What a message may weigh beside its data, when it is passed on.
BESIDE_BYTES_MAX = 200


def check(data: bytes) -> None:
    """Read RPCs until one breaks a bound, or an answer.

    Raises:
        Finding: a promise is broken.
        Exception: anything that the reader does not expect.
    """
    if data[:1] and data[0] & 1:
        address = METER.timed(lambda: observed_address(data[1:]))
        require(address is None or len(address.to_bytes()) <= OBSERVED_BYTES_MAX, "a long address is read")
        return
    for rpc in METER.timed(lambda: _read(data[1:])):
        for message in rpc.publish:
            require(list(message.topicIDs) == [TOPIC], f"topics {message.topicIDs!r:.200}")
            beside = message.ByteSize() - len(message.data)
            require(beside <= BESIDE_BYTES_MAX, f"{beside} bytes are passed on beside the data")


def _read(data: bytes) -> list[Any]:
    """The RPCs that something after the bounds would read."""
    found: list[Any] = []
    try:
        for frame in FrameBuffer(FRAME_BYTES_MAX).feed(data):
            rpc = rpc_pb2.RPC()
            rpc.ParseFromString(frame)
            check_bounds(rpc, {TOPIC})
            found.append(rpc)
    except (Misframed, DecodeError, OutOfBounds):
        pass
    return found
