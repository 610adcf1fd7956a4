"""Bans: hears, bans, tells the network process whatever happens to it, and keeps everything on disk."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from swarmd.clients.network import Accusation
from swarmd.errors import ChildDied, DiskFull
from swarmd.files.atomic import write_atomically
from swarmd.loops.bans import SAVE_S, SHOWN_MAX, Bans
from swarmd.loops.shown import AuthorsShown
from swarmd.protocol.signing import peer_id_of
from swarmd.trust.offences import BAN_S
from swarmd.trust.standing import Standings
from swarmd.trust.standings_file import decode_bans, decode_into
from tests.loops.fakes import MS
from tests.loops.parts import ME, OTHER, Loops

PEER = OTHER.public_key


def strict() -> Loops:
    """A node that bans for points."""
    loops = Loops()
    loops.trust.standings.ban_points = 100.0
    return loops


def on_disk(path: Path, *, later_s: float = 0.0) -> Standings:
    """What a node that starts now reads."""
    standings = Standings(proven_rollouts=2)
    decode_into(standings, path.read_bytes(), MS / 1000 + later_s)
    return standings


def keeping(loops: Loops, folder: Path) -> tuple[Bans, Path]:
    path = folder / "standings.json"
    save_bans = partial(write_atomically, folder / "bans.json")
    return loops.bans(save=partial(write_atomically, path), save_bans=save_bans), path


async def test_evidence_becomes_a_ban_that_the_network_process_is_told_of() -> None:
    loops = strict()
    loops.network.found = [Accusation(PEER, "forwarded_reject", 10)]
    await loops.bans().once()
    assert loops.network.banned == [PEER]
    assert loops.count("trust_evidence_total", kind="forwarded_reject") == 10
    assert (
        loops.count("trust_bans_total", by="points"),
        loops.count("trust_authors", standing="banned"),
    ) == (1, 1)


async def test_a_little_evidence_is_no_ban() -> None:
    loops = strict()
    loops.network.found = [Accusation(PEER, "forwarded_reject", 9)]
    await loops.bans().once()
    assert loops.network.banned == []


async def test_nobody_bans_itself() -> None:
    loops = strict()
    loops.network.found = [Accusation(ME.public_key, "signed_reject", 1000)]
    await loops.bans().once()
    assert (loops.network.banned, loops.trust.standings.bans) == ([], {})


async def test_what_is_no_evidence_is_not_counted() -> None:
    loops = strict()
    loops.network.found = [Accusation(PEER, "dislike", 1000)]
    await loops.bans().once()
    assert not loops.trust.standings.offences.by_peer


async def test_the_network_process_hears_only_of_changes() -> None:
    loops = strict()
    bans = loops.bans()
    for _ in range(3):
        await bans.once()
    await bans.ban(PEER, for_s=60, reason="")
    for _ in range(3):
        await bans.once()
    assert [args["keys"] for args in loops.network.asked("ban")] == [[], [PEER]]


async def test_a_ban_that_has_run_out_is_told_too() -> None:
    loops = strict()
    bans = loops.bans()
    loops.network.found = [Accusation(PEER, "signed_reject", 5)]
    await bans.once()
    loops.later_s = BAN_S
    await bans.once()
    assert [args["keys"] for args in loops.network.asked("ban")] == [[PEER], []]


async def test_a_network_process_that_died_over_it_is_told_again() -> None:
    loops = strict()
    bans = loops.bans()
    await bans.ban(PEER, for_s=None, reason="")
    loops.network.fail("ban", ChildDied("gone"))
    await bans.once()
    await bans.once()
    assert loops.network.banned == [PEER]


async def test_a_network_process_that_began_with_older_bans_is_told() -> None:
    loops = strict()
    bans = loops.bans()
    await bans.once()
    loops.network.num_restarts, loops.network.banned = 1, [PEER]  # banned at its start, unbanned since
    await bans.once()
    assert loops.network.banned == []


async def test_a_call_that_arrived_but_was_not_answered_is_made_again() -> None:
    loops = strict()
    bans = loops.bans()
    await bans.once()
    await bans.ban(PEER, for_s=None, reason="")
    loops.network.fail("ban", ChildDied("late"))
    await bans.once()
    loops.network.banned = [PEER]  # it had arrived
    await bans.unban(PEER)
    await bans.once()
    assert loops.network.banned == []


async def test_many_bans_at_once_are_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    loops = strict()
    loops.network.found = [Accusation(bytes([number]) * 32, "signed_reject", 5) for number in range(200)]
    await loops.bans().once()
    assert loops.count("trust_bans_total", by="points") == 200
    assert len(caplog.records) == SHOWN_MAX + 1
    assert "197 more" in caplog.text


async def test_one_that_is_away_is_told_when_it_is_back() -> None:
    loops = strict()
    bans = loops.bans()
    loops.network.up = False
    await bans.ban(PEER, for_s=None, reason="")
    await bans.once()
    assert loops.network.calls == []
    loops.network.up = True
    await bans.once()
    assert loops.network.banned == [PEER]


async def test_one_that_hangs_keeps_nothing_from_the_disk(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    loops = strict()
    bans, path = keeping(loops, tmp_path)
    loops.network.gates["accusations"] = trio.Event()
    loops.trust.standings.changed = True
    await bans.once()
    assert path.exists()


async def test_an_operators_ban_is_on_disk_at_once(tmp_path: Path) -> None:
    bans, path = keeping(strict(), tmp_path)
    await bans.ban(PEER, for_s=None, reason="spam")
    assert on_disk(path).banned(PEER, MS / 1000 + 10**9)
    assert list(decode_bans((tmp_path / "bans.json").read_bytes())) == [PEER]
    await bans.unban(PEER)
    assert on_disk(path).bans == {}
    assert decode_bans((tmp_path / "bans.json").read_bytes()) == {}


async def test_a_ban_for_points_is_on_disk_in_the_same_second(tmp_path: Path) -> None:
    loops = strict()
    bans, path = keeping(loops, tmp_path)
    loops.network.found = [Accusation(PEER, "signed_reject", 5)]
    await bans.once()
    assert on_disk(path).banned(PEER, MS / 1000)


async def test_what_was_scored_is_on_disk_before_long(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    loops = strict()
    bans, path = keeping(loops, tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bans.run)
        await trio.testing.wait_all_tasks_blocked()
        loops.trust.standings.scored(PEER, num_rollouts=2)
        await trio.sleep(SAVE_S + 2)
        assert on_disk(path).proven(PEER)
        nursery.cancel_scope.cancel()


async def test_an_orderly_stop_writes_the_last_state(tmp_path: Path) -> None:
    loops = strict()
    bans, path = keeping(loops, tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bans.run)
        await trio.testing.wait_all_tasks_blocked()
        loops.trust.standings.scored(PEER, num_rollouts=2)
        nursery.cancel_scope.cancel()
    assert on_disk(path).proven(PEER)


async def test_a_full_disk_costs_the_file_and_nothing_else(autojump_clock: trio.testing.MockClock) -> None:
    loops, wrote = strict(), list[bytes]()

    def save(content: bytes) -> None:
        wrote.append(content)
        if len(wrote) == 1:
            raise DiskFull("no space")

    bans = loops.bans(save=save)
    loops.network.found = [Accusation(PEER, "signed_reject", 5)]
    await bans.once()
    assert loops.network.banned == [PEER]
    await bans.once()
    assert len(wrote) == 2


async def test_bans_for_points_are_written_at_a_tenth_of_the_time_at_most(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops, wrote = strict(), list[float]()
    bans = loops.bans(save=lambda content: wrote.append(trio.current_time()))

    async def slow(function: Callable[..., Any], *args: Any) -> Any:
        await trio.sleep(1.0)
        return function(*args)

    bans.run_blocking = slow
    for number in range(60):
        loops.network.found = [Accusation(bytes([number]) * 32, "signed_reject", 5)]
        await bans.once()
        await trio.sleep(1.0)
    await bans.ban(PEER, for_s=None, reason="")
    gaps_s = [later - sooner for sooner, later in pairwise(wrote)]
    assert len(wrote) > 2
    assert min(gaps_s[:-1]) >= 10.0  # encoding and writing took a second
    assert gaps_s[-1] < 10.0 or trio.current_time() == wrote[-1]  # the operator does not wait


async def test_nothing_new_is_not_written_again() -> None:
    loops, wrote = strict(), list[bytes]()
    bans = loops.bans(save=wrote.append)
    for _ in range(2):
        loops.trust.standings.changed = True
        await bans.once()
    assert len(wrote) == 1


async def test_a_node_alone_has_standings_too() -> None:
    loops = strict()
    bans = loops.bans()
    bans.network = None
    await bans.ban(PEER, for_s=None, reason="")
    await bans.once()
    assert (loops.network.calls, bans.standing_of(peer_id_of(PEER))) == ([], "banned")


@pytest.mark.parametrize(
    ("peer_id", "standing"), [("x", "new"), (peer_id_of(PEER), "proven"), (peer_id_of(ME.public_key), "new")]
)
def test_a_peer_has_one_word(peer_id: str, standing: str) -> None:
    loops = strict()
    loops.trust.standings.scored(PEER, num_rollouts=2)
    assert loops.bans().standing_of(peer_id) == standing


async def test_the_status_has_the_numbers() -> None:
    loops = strict()
    bans = loops.bans()
    loops.trust.standings.scored(PEER, num_rollouts=2)
    loops.trust.standings.scored(ME.public_key, num_rollouts=1)
    await bans.ban(ME.public_key, for_s=1, reason="")
    assert loops.progress.shown.authors == AuthorsShown(num_authors=2, num_proven=1, num_banned=1)
