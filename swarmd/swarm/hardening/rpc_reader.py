"""Reading a peer's pubsub streams. In stock

- a malformed RPC ends the host (T2);
- each message starts a task, without a bound;
- an oversized RPC registers the peer anew, so that an honest sender replays the same message in a tight loop;
- nothing looks at an RPC's fields before the router acts on them;
- GRAFTs, PRUNEs and subscriptions are acted on, and answered, however many come;
- RPCs are taken as fast as they come (256 KiB of zero bytes are 262,144 RPCs).
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio
from google.protobuf.message import DecodeError
from libp2p.abc import INetStream
from libp2p.io.exceptions import IOException
from libp2p.network.connection.exceptions import RawConnError
from libp2p.network.stream.exceptions import StreamError
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from swarmd.fair.bucket import Bucket
from swarmd.swarm.hardening.counters import contained
from swarmd.swarm.hardening.in_flight import InFlightPubsub
from swarmd.swarm.hardening.rpc_bounds import OutOfBounds, check
from swarmd.swarm.hardening.rpc_frames import FrameBuffer, Misframed
from swarmd.swarm.hardening.sender_record import SenderRecordPubsub
from swarmd.trust.evidence import Evidence

Take = Callable[[rpc_pb2.Message], Awaitable[None]]

READ_BYTES = 256 * 1024
# Messages of one peer under validation at a time. The reader then stops reading, so the peer's own queue fills: back-pressure
# instead of loss. Relayed messages make room before that (`fair.judge`).
VALIDATIONS_PER_PEER_MAX = 16
# Of these, begun in one turn of the loop. Each costs a signature check before anything is counted. With one a turn, thirteen small
# messages a second fill a busy loop's turns. With sixteen, eight peers that repeat one message take half of the time.
AT_ONCE_MAX = 4
# An honest peer of another version sends oversized messages by mistake; three of them and it is a stranger.
STRIKES_MAX = 3
STRIKE_PEERS_MAX = 1000
# CPU that a peer's RPCs may take before anything is validated: a twentieth of a core, and a tenth of a second at once. An honest
# neighbour's 150 RPCs a second take a hundredth. A peer past its budget is not read for a second; nothing is lost.
RPC_CPU_RATE, RPC_CPU_S_MAX = 0.05, 0.1
# GRAFTs, PRUNEs and changes of subscription of one peer: every implementation sends at most one of each a beat and topic, and a
# beat is a second. RPCs past that are dropped, and no honest peer sends them.
CONTROL_RATE, CONTROL_MAX = 4.0, 100
# CPU of an RPC beside the measured part: cutting it out of the stream, and the measuring.
BESIDE_S = 20e-6
# Pubsub streams that one peer opens: one, and a second while the connection of the first is dying.
STREAMS_PER_PEER_MAX = 4
# Peers whose budget is remembered, also when they have no stream: a budget is full again after some seconds.
READINGS_MAX = 1000
# A peer that leaves the topic may come back, four times before its score falls; after seventy in a row it is graylisted.
UNSUBSCRIBE_PENALTY = 0.5


@dataclass
class _Reading:
    """All pubsub streams of one peer share this."""

    budget: Bucket
    control: Bucket
    slots: trio.Semaphore = field(default_factory=lambda: trio.Semaphore(VALIDATIONS_PER_PEER_MAX))
    num_streams: int = 0

    def is_over(self, now: float) -> bool:
        """Whether there is nothing left to remember: no stream, and all is paid for."""
        both_full = self.budget.holds(self.budget.burst, now) and self.control.holds(self.control.burst, now)
        return not self.num_streams and both_full

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Charge the block's CPU time; nothing in it may wait for anything."""
        began_s = time.thread_time()
        try:
            yield
        finally:
            self.budget.charge(time.thread_time() - began_s + BESIDE_S, trio.current_time())

    async def paid_off(self) -> None:
        """Returns once the peer's earlier RPCs are paid for."""
        if not self.budget.holds(0.0, trio.current_time()):
            # Half full at once: waking up for each of a thousand tiny RPCs would cost more than they do.
            await trio.sleep((self.budget.burst / 2 - self.budget.level) / self.budget.rate)


class ReaderPubsub(InFlightPubsub, SenderRecordPubsub):
    """Pubsub whose readers keep every fault inside the peer's own stream.

    `accuse` is told of each RPC that no honest peer sends, and of what kind it is.
    """

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **settings)
        self._strikes: Counter[ID] = Counter()
        self._readings: dict[ID, _Reading] = {}
        self.accuse: Callable[[ID, Evidence], None] = lambda peer, evidence: None

    async def continuously_read_stream(self, stream: INetStream) -> None:
        """Read until the stream ends; an RPC that cannot be read resets the stream, the third one closes the connection."""
        peer = stream.muxed_conn.peer_id
        reading = self._reading_of(peer)
        if reading.num_streams >= STREAMS_PER_PEER_MAX:
            self.counters.count("too_many_streams")
            await stream.reset()
            return
        reading.num_streams += 1
        try:
            await self._read(peer, stream, reading)
        finally:
            reading.num_streams -= 1

    def _reading_of(self, peer: ID) -> _Reading:
        """The reading of a peer's streams. It outlives them: a fresh stream must not bring a fresh budget."""
        if peer not in self._readings:
            now = trio.current_time()
            if len(self._readings) >= READINGS_MAX:
                self._readings = {peer: one for peer, one in self._readings.items() if not one.is_over(now)}
            self._readings[peer] = _Reading(
                Bucket.full(RPC_CPU_RATE, RPC_CPU_S_MAX, now), Bucket.full(CONTROL_RATE, CONTROL_MAX, now)
            )
        return self._readings[peer]

    async def _read(self, peer: ID, stream: INetStream, reading: _Reading) -> None:
        frames = FrameBuffer(self.max_inbound_rpc_size)
        async with trio.open_nursery() as validations:

            async def take(message: rpc_pb2.Message) -> None:
                # `acquire` takes a turn of the loop, also where there is a slot
                if reading.slots.value > VALIDATIONS_PER_PEER_MAX - AT_ONCE_MAX:
                    reading.slots.acquire_nowait()
                else:
                    await reading.slots.acquire()
                validations.start_soon(self._push_then_release, peer, message, reading.slots)

            await reading.paid_off()
            try:
                while self.manager.is_running and (chunk := await stream.read(READ_BYTES)):
                    for frame in frames.feed(chunk):
                        await self._handle_frame(peer, frame, reading, take)
                        await reading.paid_off()
            except (Misframed, DecodeError, OutOfBounds) as error:
                await self._strike(peer, stream, error)
            except (StreamError, IOException, RawConnError):
                pass  # how streams end

    async def _handle_frame(
        self, peer: ID, frame: bytes, reading: _Reading, take: Callable[[rpc_pb2.Message], Awaitable[None]]
    ) -> None:
        with reading.charged():
            rpc = rpc_pb2.RPC()
            rpc.ParseFromString(frame)
            check(rpc, self.allowed_topics)
            if (num := num_controls(rpc)) and not reading.control.take(num, trio.current_time()):
                self.counters.count("control_flood")
                self.accuse(peer, "control_flood")
                return
            if self.router.scorer.is_graylisted(peer, list(self.topic_ids)):
                self.counters.count("graylisted")
                return
            if not self.consume_record(peer, rpc):
                self.counters.count("bad_sender_record")
                self.router.scorer.penalize_behavior(peer, 1.0)
                return
            messages = [
                one for one in rpc.publish if self._is_subscribed_to_msg(one) and not self.is_copy(one)
            ]
        for message in messages:
            await take(message)
        with reading.charged():
            self._handle_subscriptions(peer, rpc.subscriptions)
            if rpc.HasField("control"):
                with contained(self.counters, "control_error"):
                    await self.router.handle_rpc(rpc, peer)

    def _handle_subscriptions(self, peer: ID, subscriptions: Iterable[rpc_pb2.RPC.SubOpts]) -> None:
        """The last word on each topic counts: each change starts three tasks in stock."""
        for topic, last in {one.topicid: one for one in subscriptions}.items():
            if not last.subscribe and peer in self.peer_topics.get(topic, ()):
                self.router.scorer.penalize_behavior(peer, UNSUBSCRIBE_PENALTY)
            self.handle_subscription(peer, last)

    async def _push_then_release(self, peer: ID, message: rpc_pb2.Message, slots: trio.Semaphore) -> None:
        try:
            await self.push_msg(peer, message)
        finally:
            slots.release()

    async def _strike(self, peer: ID, stream: INetStream, error: Exception) -> None:
        self.counters.count("rpc_out_of_bounds" if isinstance(error, OutOfBounds) else "misframed_rpc")
        self.accuse(peer, "broken_rpc")
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


def num_controls(rpc: rpc_pb2.RPC) -> int:
    """GRAFTs, PRUNEs and changes of subscription in an RPC; of many changes of one RPC only the last is acted on."""
    return len(rpc.control.graft) + len(rpc.control.prune) + bool(len(rpc.subscriptions))
