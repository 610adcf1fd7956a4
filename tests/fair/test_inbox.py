"""The inbox: bounded, fair by time between flows and in a flow between authors, and a flood drops its own messages only."""

import random

import pytest
import trio
import trio.testing

from swarmd.fair.flow import Flow
from swarmd.fair.inbox import LOOK_S, Inbox

A, B = Flow(b"a", own=True), Flow(b"b", own=True)
VIA = Flow(b"forwarder", own=False)
PROVEN = Flow(b"p", own=True, shares=False)


def offer(inbox: Inbox, flow: Flow, message: bytes, author: bytes | None = None) -> bool:
    """By default of the author who answers for the flow."""
    return inbox.offer(flow, flow.peer if author is None else author, message)


async def taken(inbox: Inbox) -> list[bytes]:
    """All that is in it."""
    return [await anext(inbox) for _ in range(len(inbox))]


async def test_one_author_is_served_in_order() -> None:
    inbox = Inbox()
    for number in range(5):
        offer(inbox, A, bytes([number]))
    assert await taken(inbox) == [bytes([number]) for number in range(5)]


async def test_flows_are_served_in_turn(autojump_clock: trio.testing.MockClock) -> None:
    inbox = Inbox()
    for number in range(3):
        offer(inbox, A, b"a%d" % number)
    offer(inbox, B, b"b0")
    offer(inbox, VIA, b"v0")
    assert await taken(inbox) == [b"a0", b"b0", b"v0", b"a1", b"a2"]


async def test_dear_messages_wait_for_as_much_time_of_cheap_ones(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inbox, served = Inbox(), list[bytes]()
    for _ in range(30):
        offer(inbox, A, b"dear")
        offer(inbox, B, b"cheap")
    for _ in range(33):
        served.append(await anext(inbox))
        await trio.sleep(0.8 if served[-1] == b"dear" else 0.1)
    assert served.count(b"dear") <= 5


async def test_in_a_bringers_flow_authors_are_served_by_time_as_well(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inbox, served = Inbox(), list[bytes]()
    for number in range(5):
        offer(inbox, VIA, b"flood", author=b"flooder")
        offer(inbox, VIA, b"honest", author=b"new %d" % number)
    for _ in range(10):
        served.append(await anext(inbox))
        await trio.sleep(0.8 if served[-1] == b"flood" else 0.01)
    assert served[:6] == [b"flood"] + [b"honest"] * 5


async def test_names_without_end_behind_one_bringer_take_no_more_than_its_flow(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inbox, served = Inbox(), list[bytes]()
    for number in range(40):
        offer(inbox, VIA, b"flood", author=b"name %d" % number)
        offer(inbox, A, b"honest")
    for _ in range(20):
        served.append(await anext(inbox))
        await trio.sleep(0.1)
    assert served.count(b"honest") == 10


async def test_a_flood_loses_its_newest_and_nobody_elses() -> None:
    inbox = Inbox(messages_max=4)
    for number in range(4):
        offer(inbox, VIA, b"v%d" % number, author=b"flooder")
    assert not offer(inbox, A, b"a0")
    assert not offer(inbox, VIA, b"late", author=b"flooder")
    assert sorted(await taken(inbox)) == [b"a0", b"v0", b"v1", b"v2"]


async def test_in_a_flow_who_has_most_loses() -> None:
    inbox = Inbox(messages_max=4)
    for number in range(3):
        offer(inbox, VIA, b"v%d" % number, author=b"flooder")
    offer(inbox, VIA, b"h0", author=b"honest")
    assert not offer(inbox, VIA, b"h1", author=b"honest")
    assert sorted(await taken(inbox)) == [b"h0", b"h1", b"v0", b"v1"]


async def test_of_equals_the_one_that_comes_is_refused() -> None:
    inbox = Inbox(messages_max=4)
    for flow in (A, B, A, B):
        offer(inbox, flow, flow.peer)
    assert not offer(inbox, A, b"late")
    assert b"late" not in await taken(inbox)


async def test_a_full_inbox_of_single_messages_takes_no_more() -> None:
    inbox = Inbox(messages_max=2)
    assert [offer(inbox, flow, flow.peer) for flow in (A, B, VIA)] == [True, True, False]
    assert await taken(inbox) == [A.peer, B.peer]


async def test_those_who_share_wait_while_held_and_go_on_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    held = [True]
    inbox = Inbox(held=lambda: held[0])
    offer(inbox, VIA, b"v0")
    offer(inbox, A, b"a0")
    offer(inbox, PROVEN, b"p0")
    assert await anext(inbox) == b"p0"
    with trio.move_on_after(10 * LOOK_S):
        await anext(inbox)
        pytest.fail("held")
    held.clear()
    held.append(False)
    with trio.fail_after(2 * LOOK_S):
        assert await anext(inbox) == b"v0"


async def test_a_turn_ends_where_the_quota_does(autojump_clock: trio.testing.MockClock) -> None:
    held = [False]
    inbox = Inbox(held=lambda: held[0])
    for message in (b"a0", b"a1", b"a2"):
        offer(inbox, A, message)
    assert [await anext(inbox), inbox.more()] == [b"a0", b"a1"]
    held[0] = True
    assert inbox.more() is None
    for message in (b"p0", b"p1"):
        offer(inbox, PROVEN, message)
    assert [await anext(inbox), inbox.more(), inbox.more()] == [b"p0", b"p1", None]


async def test_who_waits_for_those_who_are_held_takes_what_comes_meanwhile(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inbox, found = Inbox(held=lambda: True), list[bytes]()
    offer(inbox, VIA, b"v0")

    async def take() -> None:
        found.append(await anext(inbox))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.sleep(LOOK_S / 2)
        offer(inbox, PROVEN, b"p0")
    assert found == [b"p0"]


async def test_a_newcomer_has_its_turns_while_others_are_proven_and_the_shared_quota_is_short(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Eight floods hold up to a quarter of the time together; what the proven take meanwhile must not count against it."""
    owed_s, since = 0.0, trio.current_time()

    def held() -> bool:
        nonlocal owed_s, since
        now = trio.current_time()
        owed_s, since = owed_s - 0.25 * (now - since), now
        return owed_s > 0

    inbox = Inbox(held=held)
    late = dict[bytes, float]()
    sent = 0

    async def send() -> None:
        nonlocal sent
        while True:
            if sent < 60 and trio.current_time() >= 5 * sent:
                offer(inbox, A, b"new %d" % sent)
                sent += 1
            offer(inbox, PROVEN, b"proven")
            for number in range(8):
                offer(inbox, Flow(b"flood %d" % number, own=True), b"flood")
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        while trio.current_time() < 320:
            message = await anext(inbox)
            cost_s = {b"flood": 0.8, b"proven": 0.1}.get(message, 0.01)
            await trio.sleep(cost_s)
            if message != b"proven":
                owed_s += cost_s
            if message.startswith(b"new"):
                late[message] = trio.current_time() - 5 * int(message[4:])
        nursery.cancel_scope.cancel()
    assert len(late) == 60
    assert max(late.values()) < 30


async def test_who_waits_is_woken(autojump_clock: trio.testing.MockClock) -> None:
    inbox, found = Inbox(), list[bytes]()

    async def take() -> None:
        found.append(await anext(inbox))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        offer(inbox, A, b"first")
        await trio.testing.wait_all_tasks_blocked()
        offer(inbox, A, b"second")
    assert found == [b"first", b"second"]


@pytest.mark.parametrize("seed", range(30))
async def test_it_is_bounded_and_a_small_author_loses_nothing_to_a_flood(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    rng, inbox = random.Random(seed), Inbox(messages_max=16)
    honest, came = list[bytes](), list[bytes]()
    for step in range(500):
        for _ in range(rng.randrange(8)):
            offer(inbox, VIA, b"flood", author=b"flooder %d" % rng.randrange(4))
        if step % 3 == 0:
            honest.append(b"h%d" % step)
            offer(inbox, A, honest[-1])
        assert len(inbox) <= 16
        came.append(await anext(inbox)) if len(inbox) else None
        await trio.sleep(rng.choice([0.001, 0.01, 0.5]) if came and came[-1] == b"flood" else 0.001)
    came += await taken(inbox)
    assert [message for message in came if message != b"flood"] == honest


async def test_more_is_of_the_same_author_and_flow_only(autojump_clock: trio.testing.MockClock) -> None:
    inbox = Inbox()
    assert inbox.more() is None
    for number in range(3):
        offer(inbox, VIA, b"x%d" % number, author=b"x")
    offer(inbox, VIA, b"y0", author=b"y")
    offer(inbox, A, b"x in another flow", author=b"x")
    assert await anext(inbox) == b"x0"
    assert [inbox.more(), inbox.more(), inbox.more()] == [b"x1", b"x2", None]
    assert len(inbox) == 2


async def test_what_was_taken_in_one_turn_is_paid_for_together(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inbox, served = Inbox(), list[bytes]()
    for number in range(20):
        offer(inbox, A, b"a%d" % number)
        offer(inbox, B, b"b%d" % number)
    for _ in range(12):
        message = await anext(inbox)
        served += [message] if message.startswith(b"b") else [message, *filter(None, [inbox.more()])]
        await trio.sleep(0.2 if message.startswith(b"a") else 0.1)
    # two of the one cost 0.2 s, one of the other 0.1: both get the same time, so the same number
    assert abs(sum(m.startswith(b"a") for m in served) - sum(m.startswith(b"b") for m in served)) <= 2
