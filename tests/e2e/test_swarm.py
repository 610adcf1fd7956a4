"""Three real nodes: they exchange rollouts, survive kill -9 of anything, and come back where they were."""

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.e2e.watch import FAST, alive, descendants, kill, restarts, rounds, status, until


@pytest.fixture(scope="module")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSwarm]:
    with LocalSwarm(tmp_path_factory.mktemp("swarm"), 3, seed=1, arguments=FAST) as swarm:
        swarm.start()
        for node in swarm.nodes:
            until(lambda node=node: rounds(node) >= 3, "three rounds", node)
        yield swarm


def others(swarm: LocalSwarm, node: LocalNode) -> set[str]:
    return {other.identity.peer_id for other in swarm.nodes} - {node.identity.peer_id}


def authors_held(node: LocalNode) -> set[str]:
    return set(status(node).get("buffer", {}).get("by_author", {}))


def test_every_node_holds_rollouts_of_every_other(swarm: LocalSwarm) -> None:
    for node in swarm.nodes:
        until(lambda node=node: authors_held(node) == others(swarm, node), "rollouts of all others", node)


def test_every_node_trains_on_rollouts_of_every_other(swarm: LocalSwarm) -> None:
    for node in swarm.nodes:
        until(
            lambda node=node: (
                set(status(node).get("rollouts", {}).get("used_by_author", {})) == others(swarm, node)
            ),
            "use of everybody's rollouts",
            node,
        )


def test_nobody_rejects_anything(swarm: LocalSwarm) -> None:
    for node in swarm.nodes:
        stats = status(node)["network"]["stats"]
        assert stats["received"] > 0
        assert {
            rule: num
            for rule, num in stats["verdicts"].items()
            if num and rule not in ("accepted", "duplicate")
        } == {}


def test_nobody_discards_anything_it_accepted(swarm: LocalSwarm) -> None:
    for node in swarm.nodes:
        with urllib.request.urlopen(status(node)["metrics"], timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        samples = {f.name: [s for s in f.samples if s.name.endswith("_total")] for f in families}
        assert sum(s.value for s in samples["swarmd_buffer_added"]) > 0
        assert {s.labels["reason"]: s.value for s in samples["swarmd_buffer_discarded"] if s.value} == {}


@pytest.mark.parametrize("worker", ["generation", "scorer", "network"])
def test_a_killed_child_is_replaced_and_the_node_goes_on(swarm: LocalSwarm, worker: str) -> None:
    # given
    node = swarm.nodes[1]
    before, round_before = restarts(node, worker), rounds(node)
    # when
    os.kill(status(node)["workers"][worker]["pid"], signal.SIGKILL)
    # then
    until(
        lambda: restarts(node, worker) > before and status(node)["workers"][worker]["up"],
        f"a new {worker}",
        node,
    )
    until(lambda: rounds(node) > round_before + 2, "more rounds", node)
    assert node.running


def test_the_network_comes_back_with_its_peers(swarm: LocalSwarm) -> None:
    node = swarm.nodes[2]
    os.kill(status(node)["workers"]["network"]["pid"], signal.SIGKILL)
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
