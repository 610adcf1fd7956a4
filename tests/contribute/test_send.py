"""Sending: everything that leaves passes the rules, nothing counts as sent that nobody got, a cut-off command can be repeated."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from swarmd.contribute import send as room
from swarmd.contribute.ledger import Ledger, State
from swarmd.contribute.send import Delivery, Reach, Sender, seal
from swarmd.errors import ChildDied, LocalError, SwarmdError, Temporary
from swarmd.protocol.rules import Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from tests.loops.fakes import BAD, GOOD, MS
from tests.loops.parts import MANIFEST, ME

NOBODY, SOMEBODY = Reach(0, 0), Reach(2, 3)


class FakeOutlet:
    """Reaches what `reaches` says, the last of it for ever; `errors` are raised by the next publications."""

    def __init__(self, *reaches: Reach, errors: list[SwarmdError] | None = None) -> None:
        self.reaches, self.errors = list(reaches) or [SOMEBODY], list(errors or [])
        self.published: list[tuple[float, bytes]] = []
        self.took = SOMEBODY

    async def reach(self) -> Reach:
        await trio.lowlevel.checkpoint()
        return self.reaches.pop(0) if len(self.reaches) > 1 else self.reaches[0]

    async def publish(self, data: bytes) -> Reach:
        await trio.lowlevel.checkpoint()
        self.published.append((trio.current_time(), data))
        if self.errors:
            raise self.errors.pop(0)
        return self.took


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "contributed.sqlite", ME.public_key)
    ledger.ask(MANIFEST.digest, [(0, counter) for counter in range(300)])
    yield ledger
    ledger.close()


def rollouts(num: int) -> list[Rollout]:
    completions = (Completion(text=GOOD, finished=True), Completion(text=BAD, finished=True))
    return [Rollout(dataset=0, counter=counter, completions=completions) for counter in range(num)]


async def send(ledger: Ledger, outlet: FakeOutlet, num: int = 2, **changes: Any) -> list[Delivery]:
    settings: dict[str, Any] = {
        "outlet": outlet,
        "ledger": ledger,
        "identity": ME,
        "manifest": MANIFEST,
        "policy": "by hand",
        "patience_s": 60.0,
        "now_ms": lambda: MS + int(trio.current_time() * 1000),
        "say": lambda line: None,
    }
    sender = Sender(**{**settings, **changes})
    return await sender.send(rollouts(num), dict.fromkeys(range(num), b"digest"))


def states(ledger: Ledger, num: int = 2) -> set[State]:
    return {asked.state for asked in ledger.find(range(num)).values()}


async def test_what_leaves_passes_the_rules_of_every_node(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    outlet = FakeOutlet()
    assert await send(ledger, outlet) == [Delivery(2, SOMEBODY)]
    ((_, data),) = outlet.published
    outcome = validate(data, now_ms=MS, seen=Seen(), manifest=MANIFEST)
    assert outcome.verdict is Verdict.ACCEPT
    assert outcome.batch
    header = outcome.batch.signed.header
    assert (header.author, header.policy, header.swarm) == (ME.public_key, "by hand", MANIFEST.digest)
    assert outcome.batch.batch.rollouts == tuple(rollouts(2))
    assert states(ledger) == {State.SENT}


async def test_many_go_in_several_messages_at_a_pace(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    outlet = FakeOutlet()
    deliveries = await send(ledger, outlet, 150)
    times = [at for at, _ in outlet.published]
    assert sum(delivery.num_rollouts for delivery in deliveries) == 150
    assert len(times) == len(deliveries) >= 3
    assert all(later - earlier >= room.PACE_S for earlier, later in pairwise(times))


async def test_nobody_there_is_an_error_after_which_nothing_counts_as_sent(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    outlet = FakeOutlet(NOBODY)
    with pytest.raises(Temporary, match="no peer of the swarm tiny within 60 s") as caught:
        await send(ledger, outlet)
    assert caught.value.exit_code == 75
    assert (outlet.published, states(ledger)) == ([], {State.OPEN})


async def test_a_peer_that_comes_late_gets_a_message_made_then(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    outlet = FakeOutlet(*[NOBODY] * 100, SOMEBODY)
    await send(ledger, outlet)
    ((at, data),) = outlet.published
    assert at >= 100 * room.LOOK_S
    outcome = validate(data, now_ms=MS + 60_000, seen=Seen(), manifest=MANIFEST)
    assert outcome.batch
    assert outcome.batch.signed.header.created_ms == MS + int(at * 1000)


async def test_neighbours_that_forward_are_waited_for_but_not_for_ever(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    outlet = FakeOutlet(Reach(0, 1))
    outlet.took = Reach(0, 1)
    assert await send(ledger, outlet) == [Delivery(2, Reach(0, 1))]
    assert room.MESH_S_MAX <= outlet.published[0][0] <= room.MESH_S_MAX + 1


async def test_peers_that_left_before_the_message_leave_it_open(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    outlet = FakeOutlet()
    outlet.took = NOBODY
    with pytest.raises(Temporary):
        await send(ledger, outlet)
    assert outlet.published
    assert states(ledger) == {State.OPEN}


async def test_a_message_that_may_be_out_stays_so_when_nobody_takes_the_next(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    ledger.begin({0: b"digest"})
    outlet = FakeOutlet()
    outlet.took = NOBODY
    with pytest.raises(Temporary):
        await send(ledger, outlet)
    assert {c: asked.state for c, asked in ledger.find([0, 1]).items()} == {0: State.LEAVING, 1: State.OPEN}


async def test_a_network_that_comes_back_gets_the_same_message(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    outlet = FakeOutlet(errors=[ChildDied("gone"), Temporary("being rebuilt")])
    await send(ledger, outlet)
    assert len({data for _, data in outlet.published}) == 1
    assert [at for at, _ in outlet.published] == [0, 1, 2]
    assert states(ledger) == {State.SENT}


@pytest.mark.parametrize("errors", [[ChildDied("gone")] * 3, [LocalError("refused")]])
async def test_a_command_that_was_cut_off_can_be_repeated(
    ledger: Ledger, autojump_clock: trio.testing.MockClock, errors: list[SwarmdError]
) -> None:
    with pytest.raises(LocalError):
        await send(ledger, FakeOutlet(errors=errors))
    assert states(ledger) == {State.LEAVING}
    await send(ledger, FakeOutlet())
    assert states(ledger) == {State.SENT}


async def test_what_went_before_a_failure_is_told_and_kept(
    ledger: Ledger, autojump_clock: trio.testing.MockClock
) -> None:
    class Once(FakeOutlet):
        async def publish(self, data: bytes) -> Reach:
            if self.published:
                raise LocalError("refused")
            return await super().publish(data)

    with pytest.raises(LocalError, match=r"of 150 rollouts were sent, then: refused"):
        await send(ledger, Once(), 150)
    assert states(ledger, 150) == {State.SENT, State.LEAVING, State.OPEN}


async def test_two_commands_at_once_do_not_send_one_question_twice(ledger: Ledger) -> None:
    ledger.begin({1: b"other"})
    outlet = FakeOutlet()
    with pytest.raises(LocalError, match="another command"):
        await send(ledger, outlet)
    assert outlet.published == []


def test_what_breaks_a_rule_is_never_sealed() -> None:
    strict = MANIFEST.model_copy(update={"limits": MANIFEST.limits.model_copy(update={"completions_min": 3})})
    with pytest.raises(LocalError, match="by rule completions_count"):
        seal(RolloutBatch(rollouts=tuple(rollouts(1))), ME, strict, "by hand", MS)
