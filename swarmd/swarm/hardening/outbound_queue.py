"""T13: stock holds 32 RPCs for a peer, IDONTWANTs included, and drops the rest: of 100 messages in a row 16 arrive.

The bound that matters is memory, so this queue counts bytes; control messages have their own, small, allowance.
"""

from collections import deque

import trio
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import RpcQueue

# 100 messages of 40 kB, or half a minute of a 1 Mbit/s uplink. A peer that is slower is too slow to feed.
DATA_BYTES_MAX = 4 * 2**20
CONTROL_RPCS_MAX = 512


class ByteBoundedQueue(RpcQueue):  # type: ignore[misc]
    """RPCs waiting for one peer: control first, data bounded in bytes. One consumer."""

    _notify: trio.Event

    def __init__(self, *, rpc_bytes_max: int, data_bytes_max: int = DATA_BYTES_MAX) -> None:
        super().__init__(max_message_size=rpc_bytes_max)
        self._data_bytes_max, self.data_bytes = data_bytes_max, 0
        self._data: deque[tuple[rpc_pb2.RPC, int]] = deque()
        self._control: deque[rpc_pb2.RPC] = deque()

    def __len__(self) -> int:
        return len(self._data) + len(self._control)

    @property
    def has_room(self) -> bool:
        """Less than half full: publishers may go on."""
        return self.data_bytes < self._data_bytes_max // 2

    def push(self, rpc: rpc_pb2.RPC, priority: bool = False) -> bool:
        """Queue an RPC; false when it is full or closed, and the caller drops it."""
        size_bytes = rpc.ByteSize()
        if self._closed or (
            len(self._control) >= CONTROL_RPCS_MAX if priority else self._is_full(size_bytes)
        ):
            return False
        if priority:
            self._control.append(rpc)
        else:
            self._data.append((rpc, size_bytes))
            self.data_bytes += size_bytes
        self._notify.set()
        self._notify = trio.Event()
        return True

    def _is_full(self, size_bytes: int) -> bool:
        return self.data_bytes + size_bytes > self._data_bytes_max

    async def pop(self) -> rpc_pb2.RPC | None:
        """The next RPC; None once the queue is closed and empty."""
        while not len(self):
            if self._closed:
                return None
            await self._notify.wait()
        return self._take()

    async def pop_some(self, bytes_max: int) -> list[rpc_pb2.RPC]:
        """The next RPC, and more that are at most `bytes_max` with it; none once the queue is closed and empty."""
        first = await self.pop()
        if first is None:
            return []
        rpcs, left = [first], bytes_max - first.ByteSize()
        while len(self) and (size_bytes := self._next_bytes()) <= left:
            rpcs.append(self._take())
            left -= size_bytes
        return rpcs

    def _next_bytes(self) -> int:
        return int(self._control[0].ByteSize()) if self._control else self._data[0][1]

    def _take(self) -> rpc_pb2.RPC:
        if self._control:
            return self._control.popleft()
        rpc, size_bytes = self._data.popleft()
        self.data_bytes -= size_bytes
        return rpc
