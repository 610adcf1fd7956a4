"""What a child writes, and in which order."""

import trio
import trio.testing

from swarmd.processes.child import EVENTS_MAX, WRITE_BYTES, _Outbox
from swarmd.processes.frames import FrameReader


class Writes:
    """A stream that keeps what was written, write by write."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    async def send_all(self, data: bytes) -> None:
        self.frames.append(data)
        await trio.lowlevel.checkpoint()


async def written(outbox: _Outbox) -> list[list[dict]]:
    stream = Writes()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write_to, stream)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return [list(FrameReader().feed(frames)) for frames in stream.frames]


async def test_a_reply_does_not_wait_behind_events() -> None:
    outbox = _Outbox()
    for number in range(10):
        outbox.put({"event": "batch", "data": {"number": number}}, may_drop=True)
    outbox.put({"id": 1, "result": None})
    (together,) = await written(outbox)
    assert together[0] == {"id": 1, "result": None}
    assert [message["data"]["number"] for message in together[1:]] == list(range(10))


async def test_one_write_is_bounded() -> None:
    outbox = _Outbox()
    for _ in range(10):
        outbox.put({"event": "batch", "data": {"data": bytes(WRITE_BYTES // 2)}}, may_drop=True)
    assert [len(messages) for messages in await written(outbox)] == [2] * 5


async def test_events_past_the_bound_are_dropped_oldest_first_and_counted() -> None:
    outbox = _Outbox()
    for number in range(EVENTS_MAX + 3):
        outbox.put({"event": "batch", "data": {"number": number}}, may_drop=True)
    ((dropped, *events),) = await written(outbox)
    assert (dropped, events[0]["data"]["number"]) == ({"dropped": 3}, 3)
    assert len(events) == EVENTS_MAX
