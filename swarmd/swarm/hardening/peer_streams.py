"""Registering a peer and sending to it: one byte-bounded queue, one writer, one hello.

Stock lets two connections of a peer register twice, and orphans one sending task. It loses a subscription made while the hello is
being written. The end of an old stream throws out the new stream. A peer whose first negotiation timed out is forgotten for good.
"""

import trio
from libp2p.abc import INetStream
from libp2p.host.exceptions import StreamFailure
from libp2p.network.exceptions import SwarmException
from libp2p.peer.id import ID
from libp2p.pubsub.pubsub import Pubsub
from libp2p.utils import encode_varint_prefixed

from swarmd.swarm.hardening.counters import Counters, contained
from swarmd.swarm.hardening.outbound_queue import ByteBoundedQueue

# Bytes of RPCs that are written together. A write takes some turns of the loop, a tenth of a second each on a busy machine.
# Written one by one, a relayed flood piles up before the node's own messages. With four times as many bytes a neighbour at 250
# kbit/s looks frozen (`pacing.FROZEN_S`), because its queue gets shorter by one write at a time.
WRITE_BYTES_MAX = 16 * 1024
# Seconds of one write. A peer that takes no write in this time is too slow for any swarm; until then it holds up to 4 MiB and a
# place in the mesh.
WRITE_S_MAX = 30.0
CLOSE_S_MAX = 5.0


class PeerStreamsPubsub(Pubsub):  # type: ignore[misc]
    """Pubsub with exactly one outbound stream per peer, written by exactly one task."""

    counters: Counters

    async def _handle_new_peer(self, peer_id: ID) -> None:
        """Open our stream to a peer and register it; raises the swarm's errors, on which the caller tries again."""
        if peer_id in self.peers or self.is_peer_blacklisted(peer_id):
            return
        try:
            stream = await self.host.new_stream(peer_id, self.protocols)
        except StreamFailure as error:  # a busy peer took too long to negotiate; the caller tries again only on the swarm's errors
            raise SwarmException(f"no pubsub stream to {peer_id}") from error
        if peer_id in self.peers:  # a second connection was faster
            await stream.reset()
            return
        self.router.add_peer(peer_id, stream.get_protocol())
        queue = ByteBoundedQueue(rpc_bytes_max=self.max_inbound_rpc_size)
        queue.push(self.get_hello_packet(), priority=True)
        self.peers[peer_id], self.peer_queues[peer_id] = stream, queue
        self.manager.run_task(self.handle_sending_messages, peer_id, stream, queue)
        if peer_id in self._peer_added_events:
            self._peer_added_events.pop(peer_id).set()
        with contained(self.counters, "replay_error"):
            await self.router.flush_pending_messages(peer_id)
            await self._send_recent_messages_to_new_peer(peer_id)

    async def handle_sending_messages(self, peer_id: ID, stream: INetStream, queue: ByteBoundedQueue) -> None:
        """Write what is queued for a peer until the queue is closed or the stream breaks."""
        block = contained(self.counters, "send_error")
        with block:
            while rpcs := await queue.pop_some(WRITE_BYTES_MAX):
                data = b"".join(encode_varint_prefixed(rpc.SerializeToString()) for rpc in rpcs)
                with trio.move_on_after(WRITE_S_MAX) as writing:
                    await stream.write(data)
                if writing.cancelled_caught:
                    self.counters.count("peer_stalled")
                    await self._leave(peer_id)
                    return
        if block.failed and self.peers.get(peer_id) is stream:
            self._handle_dead_peer(peer_id)

    async def _leave(self, peer_id: ID) -> None:
        """Close all connections to a peer that reads no more: it would keep its place in the mesh for ever."""
        with trio.move_on_after(CLOSE_S_MAX):
            await self.host.get_network().close_peer(peer_id)
        self._handle_dead_peer(peer_id)

    async def _teardown_if_connected(self, peer_id: ID) -> None:
        """Forget a peer that was just blocked; stock raises KeyError, and ends, when the peer leaves meanwhile."""
        stream = self.peers.pop(peer_id, None)
        queue = self.peer_queues.pop(peer_id, None)
        self._forget_all_subscriptions(peer_id)
        if queue is not None:
            queue.close()
            self.router.remove_peer(peer_id)
        if stream is not None:
            with contained(self.counters, "reset_error"):
                await stream.reset()
