"""Three real nodes: they exchange rollouts, weigh them, survive kill -9 of anything, and come back where they were."""

import os
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.test_weightings import history, with_externals
from tests.e2e.watch import alive, descendants, kill, restarts, resting, rounds, status, until


def others(swarm: LocalSwarm, node: LocalNode) -> set[str]:
    return {other.identity.peer_id for other in swarm.nodes} - {node.identity.peer_id}


def authors_held(node: LocalNode) -> set[str]:
    return set(status(node).get("buffer", {}).get("by_author", {}))


def authors_used(node: LocalNode) -> set[str]:
    return set(status(node).get("rollouts", {}).get("used_by_author", {}))


def heard_of(node: LocalNode) -> dict[str, Any]:
    """The network's figures, once it has received something."""
    stats: dict[str, Any] = status(node).get("network", {}).get("stats", {})
    return stats if stats.get("received") else {}


def claims(node: LocalNode) -> list[float]:
    """Of each round with externals whose claims came along: the ratio of likelihoods."""
    found = [record["external_likelihood_ratio"] for record in with_externals(history(node))]
    return [ratio for ratio in found if ratio is not None]


@pytest.mark.parametrize("authors", [authors_held, authors_used], ids=["holds", "trains on"])
def test_every_node_has_rollouts_of_every_other(
    swarm: LocalSwarm, persons: set[str], authors: Callable[[LocalNode], set[str]]
) -> None:
    for node in swarm.nodes:
        until(
            lambda node=node: authors(node) - persons == others(swarm, node),
            f"everybody's rollouts among the {authors.__name__}",
            node,
        )


def test_nobody_rejects_anything(swarm: LocalSwarm) -> None:
    for node in swarm.nodes:
        stats = until(lambda node=node: heard_of(node), "a message", node)
        assert {
            rule: num
            for rule, num in stats["verdicts"].items()
            if num and rule not in ("accepted", "duplicate")
        } == {}


def test_nobody_discards_anything_it_accepted(swarm: LocalSwarm) -> None:
    for node in swarm.nodes:
        until(lambda node=node: authors_held(node) or authors_used(node), "a rollout of another", node)
        with urllib.request.urlopen(status(node)["metrics"], timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        samples = {f.name: [s for s in f.samples if s.name.endswith("_total")] for f in families}
        assert sum(s.value for s in samples["swarmd_buffer_added"]) > 0
        assert {s.labels["reason"]: s.value for s in samples["swarmd_buffer_discarded"] if s.value} == {}


def test_nodes_weigh_each_other_and_measure_their_engine(swarm: LocalSwarm) -> None:
    for node in swarm.nodes:
        # at first an informative rollout is rare, and those of persons come without claims
        until(lambda node=node: len(claims(node)) >= 2, "two rounds with externals that claim", node)
        records = history(node)
        assert all(0 <= record["external_weight_mean"] <= 1 for record in with_externals(records))
        ratios = [r["mismatch_ratio_mean"] for r in records if r["mismatch_ratio_mean"] is not None]
        assert ratios == pytest.approx([1.0] * len(ratios), abs=0.01)
        assert ratios
        assert all(record["rejected"] == 0 for record in records)


def test_killed_children_are_replaced_and_their_nodes_go_on_with_their_peers(swarm: LocalSwarm) -> None:
    # given a child of each kind, each of another node
    victims = list(zip(swarm.nodes[::-1], ("network", "scorer", "generation"), strict=True))
    before = {node.name: (restarts(node, worker), rounds(node)) for node, worker in victims}
    pids = [status(node)["workers"][worker]["pid"] for node, worker in victims]
    # when all three are killed at the same moment
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    # then
    for node, worker in victims:
        num_restarts, round_before = before[node.name]
        with resting(*swarm.nodes[1:] if worker == "generation" else ()):
            until(
                lambda node=node, worker=worker, num=num_restarts: (
                    restarts(node, worker) > num and status(node)["workers"][worker]["up"]
                ),
                f"a new {worker}",
                node,
            )
            until(lambda node=node, done=round_before: rounds(node) > done + 2, "more rounds", node)
            assert node.running
    # and the new network finds both peers again, and what they say
    node = swarm.nodes[2]
    until(lambda: status(node)["network"]["num_peers"] == 2, "two peers again", node)
    received = status(node)["rollouts"]["received"]
    until(lambda: status(node)["rollouts"]["received"] > received, "new external rollouts", node)


def test_kill_9_of_a_node_leaves_nothing_behind_and_it_resumes_where_it_was(swarm: LocalSwarm) -> None:
    # given a node with some history, and what it left on disk at the moment of death
    node = swarm.nodes[2]
    before = until(lambda: (s := status(node)).get("round", 0) >= 5 and s, "five rounds", node)
    children = descendants(node.process.pid if node.process else 0)
    # when
    kill(node)
    # then nothing of it is left, and the others go on
    until(lambda: not any(alive(pid) for pid in children), "the end of all its children", node)
    marks = {other.name: rounds(other) for other in swarm.nodes[:2]}
    for other in swarm.nodes[:2]:
        until(lambda other=other: rounds(other) > marks[other.name] + 3, "more rounds without it", other)
    # and when it is started again, it has its round, weights and buffer, loses at most the round under way, and rejoins
    with resting(*swarm.nodes[:2]):
        swarm.start(2)
        after = until(lambda: (s := status(node)) and s["phase"] != "starting" and s, "its start", node)
        assert after["round"] >= before["round"]
        assert after["model"]["policy_version"] >= before["model"]["policy_version"]
        assert f"resumed    after round {after['round']}" in node.output() or after["round"] > before["round"]
        until(
            lambda: status(node)["buffer"].get("num_rollouts", 0) >= before["buffer"]["num_rollouts"] / 2,
            "its buffer",
            node,
        )
        until(lambda: status(node)["network"]["num_peers"] == 2, "its peers", node)
        until(lambda: rounds(node) > after["round"] + 2, "further rounds", node)


def test_no_question_is_answered_twice_across_the_restart(swarm: LocalSwarm) -> None:
    # the others would have dropped a second rollout on the same address; their buffers know every address they ever held
    holder = swarm.nodes[0]
    metrics = holder.data_dir.root / "output.log"
    assert metrics.exists()
    import sqlite3

    author = swarm.nodes[2].identity.public_key
    with sqlite3.connect(f"file:{holder.data_dir.buffer}?mode=ro", uri=True) as db:
        rows = db.execute("SELECT dataset, counter FROM rollouts WHERE author = ?", (author,)).fetchall()
    assert rows
    assert len({counter for _, counter in rows}) == len(rows)


def test_ctrl_c_ends_a_node_after_its_round_with_exit_code_0(swarm: LocalSwarm) -> None:
    node = swarm.nodes[1]
    assert node.process is not None
    children = descendants(node.process.pid)
    node.process.send_signal(signal.SIGINT)
    assert node.process.wait(300) == 0
    until(lambda: not any(alive(pid) for pid in children), "the end of its children", node)
    assert "stopping after this round" in node.output()
    assert (Path(node.data_dir.checkpoints)).exists()
