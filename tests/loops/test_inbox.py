"""The inbox: bounded, served in turn, and a flood drops its own messages only."""

import random

import pytest
import trio
import trio.testing

from swarmd.loops.inbox import Inbox

A, B, NEW = b"a", b"b", b""


async def taken(inbox: Inbox) -> list[bytes]:
    """All that is in it."""
    return [await anext(inbox) for _ in range(len(inbox))]


async def test_one_author_is_served_in_order() -> None:
    inbox = Inbox()
    for number in range(5):
        inbox.offer(A, bytes([number]))
    assert await taken(inbox) == [bytes([number]) for number in range(5)]


async def test_authors_are_served_in_turn() -> None:
    inbox = Inbox()
    for number in range(3):
        inbox.offer(A, b"a%d" % number)
    inbox.offer(B, b"b0")
    inbox.offer(NEW, b"n0")
    assert await taken(inbox) == [b"a0", b"b0", b"n0", b"a1", b"a2"]


async def test_a_flood_loses_its_newest_and_nobody_elses() -> None:
    inbox = Inbox(messages_max=4)
    for number in range(4):
        inbox.offer(NEW, b"n%d" % number)
    assert not inbox.offer(A, b"a0")
    assert not inbox.offer(NEW, b"n4")
    assert await taken(inbox) == [b"n0", b"a0", b"n1", b"n2"]


async def test_of_equals_the_one_that_comes_is_refused() -> None:
    inbox = Inbox(messages_max=4)
    for group in (A, B, A, B):
        inbox.offer(group, group)
    assert not inbox.offer(A, b"late")
    assert b"late" not in await taken(inbox)


async def test_a_full_inbox_of_single_messages_takes_no_more() -> None:
    inbox = Inbox(messages_max=2)
    assert [inbox.offer(group, group) for group in (A, B, b"c")] == [True, True, False]
    assert await taken(inbox) == [A, B]


async def test_who_waits_is_woken(autojump_clock: trio.testing.MockClock) -> None:
    inbox, found = Inbox(), list[bytes]()

    async def take() -> None:
        found.append(await anext(inbox))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        inbox.offer(A, b"first")
        await trio.testing.wait_all_tasks_blocked()
        inbox.offer(A, b"second")
    assert found == [b"first", b"second"]


@pytest.mark.parametrize("seed", range(30))
async def test_it_is_bounded_and_a_small_author_loses_nothing_to_a_flood(seed: int) -> None:
    rng, inbox = random.Random(seed), Inbox(messages_max=16)
    honest, came = list[bytes](), list[bytes]()
    for step in range(500):
        for _ in range(rng.randrange(8)):
            inbox.offer(NEW, b"flood")
        if step % 3 == 0:
            honest.append(b"h%d" % step)
            inbox.offer(A, honest[-1])
        assert len(inbox) <= 16
        came.append(await anext(inbox)) if len(inbox) else None
    came += await taken(inbox)
    assert [message for message in came if message != b"flood"] == honest
