"""What a child writes, and in which order."""

import socket
import subprocess
import sys

import trio
import trio.testing

from swarmd.processes.child import EVENTS_MAX, WRITE_BYTES, _Outbox
from swarmd.processes.frames import FrameReader, Told


class Writes:
    """A stream that keeps what was written, write by write."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    async def send_all(self, data: bytes) -> None:
        self.frames.append(data)
        await trio.lowlevel.checkpoint()


async def written(outbox: _Outbox) -> list[list[Told]]:
    stream = Writes()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write_to, stream)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return [FrameReader(Told).feed(frames) for frames in stream.frames]


async def test_a_reply_does_not_wait_behind_events() -> None:
    outbox = _Outbox()
    for number in range(10):
        outbox.put(Told("Shout", [number]), may_drop=True)
    outbox.put(Told(1, None))
    (together,) = await written(outbox)
    assert together == [Told(1, None), *(Told("Shout", [number]) for number in range(10))]


async def test_one_write_is_bounded() -> None:
    outbox = _Outbox()
    for _ in range(10):
        outbox.put(Told("Shout", [bytes(WRITE_BYTES // 2)]), may_drop=True)
    assert [len(messages) for messages in await written(outbox)] == [2] * 5


async def test_events_past_the_bound_are_dropped_oldest_first_and_counted() -> None:
    outbox = _Outbox()
    for number in range(EVENTS_MAX + 3):
        outbox.put(Told("Shout", [number]), may_drop=True)
    ((dropped, *events),) = await written(outbox)
    assert (dropped, events[0]) == (Told("Dropped", [3]), Told("Shout", [3]))
    assert len(events) == EVENTS_MAX


def test_a_child_ends_with_its_parent_also_while_it_imports() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [
            sys.executable,
            "-m",
            "swarmd.processes.child",
            str(theirs.fileno()),
            "tests.processes.endless_import:Any",
        ]
        child = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"importing\n"
        ours.close()
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()
