"""Reading a peer's pubsub stream: stock dies of a malformed RPC (T2), starts one task per message without bound, and answers an
oversized one by registering the peer anew, which makes an honest sender replay the same message in a tight loop.
"""

from collections import Counter
from typing import Any

import trio
from google.protobuf.message import DecodeError
from libp2p.io.exceptions import IOException
from libp2p.network.connection.exceptions import RawConnError
from libp2p.network.stream.exceptions import StreamError
from libp2p.pubsub.pb import rpc_pb2

from swarmd.swarm.hardening.counters import contained
from swarmd.swarm.hardening.in_flight import InFlightPubsub
from swarmd.swarm.hardening.rpc_frames import FrameBuffer, Misframed
from swarmd.swarm.hardening.sender_record import SenderRecordPubsub

READ_BYTES = 256 * 1024
# Messages of one peer under validation at a time. The reader then stops reading, so the peer's own queue fills: back-pressure
# instead of loss (what a peer only relays is let go before that, `judging`). Half idles a scorer that batches; double lets one peer
# hold twice the memory.
VALIDATIONS_PER_PEER_MAX = 16
# Of these, begun in one turn of the loop: each costs a signature check before anything is counted. At one, thirteen small messages
# a second fill a busy loop's turns; at sixteen, eight peers with ever the same message take half of the time.
AT_ONCE_MAX = 4
# An honest peer of another version sends oversized messages by mistake; three of them and it is a stranger.
STRIKES_MAX = 3
STRIKE_PEERS_MAX = 1000


class ReaderPubsub(InFlightPubsub, SenderRecordPubsub):
    """Pubsub whose readers keep every fault inside the peer's own stream."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._strikes: Counter[Any] = Counter()

    async def continuously_read_stream(self, stream: Any) -> None:
        """Read until the stream ends; an RPC that cannot be read resets the stream, the third one closes the connection."""
        peer = stream.muxed_conn.peer_id
        slots = trio.Semaphore(VALIDATIONS_PER_PEER_MAX)
        frames = FrameBuffer(self.max_inbound_rpc_size)
        async with trio.open_nursery() as validations:

            async def take(message: Any) -> None:
                # `acquire` takes a turn of the loop, also where there is a slot
                if slots.value > VALIDATIONS_PER_PEER_MAX - AT_ONCE_MAX:
                    slots.acquire_nowait()
                else:
                    await slots.acquire()
                validations.start_soon(self._push_then_release, peer, message, slots)

            try:
                while self.manager.is_running and (chunk := await stream.read(READ_BYTES)):
                    for frame in frames.feed(chunk):
                        await self._handle_frame(peer, frame, take)
            except (Misframed, DecodeError):
                await self._strike(peer, stream)
            except (StreamError, IOException, RawConnError):
                pass  # how streams end

    async def _handle_frame(self, peer: Any, frame: bytes, take: Any) -> None:
        rpc = rpc_pb2.RPC()
        rpc.ParseFromString(frame)
        if not self.consume_record(peer, rpc):
            self.counters.count("bad_sender_record")
            self.router.scorer.penalize_behavior(peer, 1.0)
            return
        for message in rpc.publish:
            if self._is_subscribed_to_msg(message):
                await take(message)
        if len(rpc.subscriptions) > self.max_subscriptions_per_rpc:
            self.counters.count("too_many_subscriptions")
        else:
            for subscription in rpc.subscriptions:
                self.handle_subscription(peer, subscription)
        if rpc.HasField("control"):
            with contained(self.counters, "control_error"):
                await self.router.handle_rpc(rpc, peer)

    async def _push_then_release(self, peer: Any, message: Any, slots: trio.Semaphore) -> None:
        try:
            await self.push_msg(peer, message)
        finally:
            slots.release()

    async def _strike(self, peer: Any, stream: Any) -> None:
        self.counters.count("misframed_rpc")
        self.router.scorer.penalize_behavior(peer, 10.0)
        if len(self._strikes) >= STRIKE_PEERS_MAX:
            self._strikes.clear()
        self._strikes[peer] += 1
        with contained(self.counters, "reset_error"), trio.move_on_after(1):
            await stream.reset()
        # No `_handle_dead_peer`: our own stream to this peer is sound, and registering it anew is what made the loop.
        if self._strikes[peer] >= STRIKES_MAX:
            self.counters.count("peer_closed")
            with contained(self.counters, "reset_error"):
                await self.host.get_network().close_peer(peer)
