"""Observe: copies counts, survives whatever does not answer, and counts a restarted child's totals right."""

from dataclasses import replace
from pathlib import Path

import trio
import trio.testing

from swarmd.clients.network import Network, Outside, Traffic
from swarmd.errors import ChildDied, StateError
from swarmd.experience.buffer import BufferCounts
from swarmd.loops.observe import AUTHORS_SHOWN, Observe
from swarmd.loops.shown import NetworkShown
from swarmd.protocol.rules import Verdict
from swarmd.protocol.signing import peer_id_of
from tests.loops.parts import OTHER, Loops, inline

COUNTS = BufferCounts(5, 3, 1000, {OTHER.public_key: 5})


def observe(loops: Loops, folder: Path, *, alone: bool = False) -> Observe:
    return Observe(
        network=None if alone else Network(loops.network),
        counts=lambda: COUNTS,
        run_blocking=inline,
        workers_up=lambda: {"scorer": True, "network": False},
        history=loops.progress.history,
        shown=loops.progress.shown,
        metrics=loops.metrics,
    )


async def test_counts_reach_metrics_and_status(tmp_path: Path) -> None:
    loops = Loops()
    await observe(loops, tmp_path).once()
    assert loops.count("buffer_rollouts", signal="uninformative") == 2
    assert loops.progress.shown.buffer.by_author == {peer_id_of(OTHER.public_key): 5}
    assert loops.count("p2p_peers", direction="outbound") == 1
    assert (loops.count("worker_up", worker="scorer"), loops.count("worker_up", worker="network")) == (1, 0)


async def test_a_node_alone_has_no_network_to_look_at(tmp_path: Path) -> None:
    loops = Loops()
    await observe(loops, tmp_path, alone=True).once()
    assert (loops.network.calls, loops.progress.shown.network) == ([], NetworkShown())


async def test_verdicts_add_up_to_what_was_received(tmp_path: Path) -> None:
    loops = Loops()
    loops.network.totals = {"received": 10, "rate_limited": 3}
    loops.network.verdicts = {"signature": 2, "age_stale": 1, "accepted": 4}
    await observe(loops, tmp_path).once()
    verdicts = {v: loops.count("gossip_validation_total", result=v) for v in ("accept", "ignore", "reject")}
    assert verdicts == {"accept": 4, "ignore": 4, "reject": 2}
    assert loops.count("gossip_rejects_total", reason="signature") == 2
    assert loops.progress.shown.network.num(Verdict.REJECT) == 2


async def test_what_was_accepted_is_no_rejection(tmp_path: Path) -> None:
    loops = Loops()
    loops.network.verdicts = {"accepted": 4}
    await observe(loops, tmp_path).once()
    samples = next(iter(loops.metrics.rejects.collect())).samples
    assert not [s for s in samples if s.name.endswith("_total") and s.value]


async def test_a_network_process_that_began_anew_takes_nothing_back(tmp_path: Path) -> None:
    loops = Loops()
    look = observe(loops, tmp_path)
    for received in (10, 15, 4):
        loops.network.totals["received"] = received
        await look.once()
    assert loops.count("gossip_received_total") == 19


async def test_a_network_that_is_away_leaves_the_last_picture(tmp_path: Path) -> None:
    loops = Loops()
    look = observe(loops, tmp_path)
    await look.once()
    loops.network.fail("stats", ChildDied("gone"))
    await look.once()
    assert len(loops.progress.shown.network.peers) == 1


async def test_a_network_that_hangs_does_not_hold_the_rest_up(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    loops = Loops()
    loops.network.gates["stats"] = trio.Event()
    await observe(loops, tmp_path).once()
    assert trio.current_time() == 10
    assert loops.count("buffer_bytes") == 1000


async def test_a_buffer_that_cannot_be_read_ends_nothing(tmp_path: Path) -> None:
    loops = Loops()
    look = observe(loops, tmp_path)

    def broken() -> BufferCounts:
        raise StateError("disk I/O error")

    look.counts = broken
    await look.once()
    assert loops.count("p2p_peers", direction="outbound") == 1
    assert loops.progress.shown.buffer_error is not None
    look.counts = lambda: COUNTS
    await look.once()
    assert loops.progress.shown.buffer_error is None


async def test_of_a_flood_of_authors_those_who_hold_most_are_named(tmp_path: Path) -> None:
    loops = Loops()
    flood = {number.to_bytes(32, "big"): 1 for number in range(2 * AUTHORS_SHOWN)}
    looking = observe(loops, tmp_path)
    looking.counts = lambda: replace(COUNTS, by_author={**flood, **COUNTS.by_author})
    await looking.once()
    assert len(loops.progress.shown.buffer.by_author) == AUTHORS_SHOWN
    assert loops.progress.shown.buffer.by_author[peer_id_of(OTHER.public_key)] == 5
    assert loops.count("buffer_sources") == 2 * AUTHORS_SHOWN + 1


async def test_who_could_connect_to_this_node_is_in_the_metrics(tmp_path: Path) -> None:
    loops = Loops()
    loops.network.totals = {"outside": Outside(True, ("1.2.3.4",), 2, 1)}
    await observe(loops, tmp_path).once()
    assert loops.count("p2p_dialled_back", result="reached") == 2
    assert loops.count("p2p_dialled_back", result="failed") == 1


async def test_what_the_connections_carried_is_in_the_metrics(tmp_path: Path) -> None:
    loops = Loops()
    look = observe(loops, tmp_path)
    for num in (10, 25, 5):  # the third is another life of the connections
        loops.network.totals = {
            "traffic": Traffic(num, 2 * num, 3 * num, {"timeout": num}, {"address": num, "full": 0})
        }
        await look.once()
    assert loops.count("p2p_bytes_total", direction="in") == 30
    assert loops.count("p2p_bytes_total", direction="out") == 60
    assert loops.count("gossip_duplicates_total") == 90
    assert loops.count("p2p_dials_total", result="timeout") == 30
    assert loops.count("p2p_refused_total", why="address") == 30
