"""A person answers by hand, over real libp2p: beside no node, through a running one, and where nobody is."""

import json
import sqlite3
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm, free_port
from swarmd.protocol.manifest import load_manifest
from swarmd.protocol.signing import Identity
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from tests.e2e.watch import resting, rounds, status, until

MANIFEST = load_manifest("tiny")
NUM = 6


def swarmd(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "swarmd", "contribute", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def asked(data_dir: Path) -> tuple[list[dict[str, object]], bytes]:
    """`NUM` questions of the key in this directory, and that key."""
    said = swarmd("--ask", str(NUM), "--data-dir", str(data_dir))
    assert said.returncode == 0, said.stderr
    author = Identity.from_seed((data_dir / "identity.key").read_bytes()).public_key
    return [json.loads(line) for line in said.stdout.splitlines()], author


def answered(lines: list[dict[str, object]], author: bytes, path: Path) -> str:
    """The file with one right and one wrong answer to each question."""
    names = [dataset.name for dataset in MANIFEST.datasets]
    with path.open("w") as file:
        for line in lines:
            number = names.index(str(line["dataset"]))
            spec = MANIFEST.datasets[number]
            source = QuestionSource(DatasetChoice(spec.name, spec.params, spec.reward))
            answer = source.item(MANIFEST.question_seed(author, number, int(str(line["counter"]))))["answer"]
            texts = [f"It is <answer>{answer}</answer>", "<answer>no idea</answer>"]
            file.write(json.dumps({**line, "completions": texts}) + "\n")
    return str(path)


def held_of(node: LocalNode, author: bytes, counters: set[int]) -> set[int]:
    """Which of these counters the node holds, or held, of an author."""
    with sqlite3.connect(f"file:{node.data_dir.buffer}?mode=ro", uri=True) as db:
        rows = db.execute(
            "SELECT counter FROM rollouts WHERE author = ? UNION SELECT counter FROM tombstones WHERE author = ?",
            (author, author),
        ).fetchall()
    return counters & {counter for (counter,) in rows}


def discarded(node: LocalNode) -> dict[str, float]:
    """What the node accepted and did not keep, by reason."""
    with urllib.request.urlopen(status(node)["metrics"], timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [s for f in families if f.name == "swarmd_buffer_discarded" for s in f.samples]
    assert samples
    return {s.labels["reason"]: s.value for s in samples if s.name.endswith("_total") and s.value}


@dataclass(frozen=True)
class Person:
    """Somebody with a key of their own, who was asked and has answered."""

    data_dir: Path
    author: bytes
    counters: set[int]
    file: str


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    folder = tmp_path_factory.mktemp("person")
    lines, author = asked(folder / "data")
    file = answered(lines, author, folder / "answers.jsonl")
    return Person(folder / "data", author, {int(str(line["counter"])) for line in lines}, file)


def test_where_nobody_is_nothing_is_sent_and_all_can_be_repeated(person: Person) -> None:
    nobody = f"/ip4/127.0.0.1/tcp/{free_port()}/p2p/{Identity.from_seed(b'n' * 32).peer_id}"
    said = swarmd(person.file, "--data-dir", str(person.data_dir), "--bootstrap", nobody, "--wait", "3")
    assert said.returncode == 75
    assert "no peer of the swarm tiny within 3 s" in said.stderr
    checked = swarmd(person.file, "--data-dir", str(person.data_dir), "--check")
    assert checked.stdout.splitlines()[-1] == f"{NUM} informative"


def test_nodes_learn_from_a_person_who_is_there_for_a_moment(
    person: Person, swarm: LocalSwarm, persons: set[str]
) -> None:
    # when the answers of a person are contributed
    peer_id = Identity.from_seed((person.data_dir / "identity.key").read_bytes()).peer_id
    persons.add(peer_id)
    arguments = [person.file, "--data-dir", str(person.data_dir), "--policy", "a person"]
    arguments += ["--bootstrap", swarm.nodes[0].address]
    with resting(*swarm.nodes):
        said = swarmd(*arguments)
    # then all nodes hold them, those that were only told of the others too, and train on them
    assert said.returncode == 0, said.stderr
    assert f"sent {NUM} rollouts as" in said.stdout
    for node in swarm.nodes:
        until(
            lambda node=node: held_of(node, person.author, person.counters) == person.counters,
            "the person's rollouts",
            node,
        )
        until(
            lambda node=node: status(node).get("rollouts", {}).get("used_by_author", {}).get(peer_id),
            "use of the person's rollouts",
            node,
        )
    # and when the command is repeated, nothing is sent again
    with resting(*swarm.nodes):
        again = swarmd(*arguments)
    assert again.returncode == 0, again.stderr
    assert again.stdout == f"{NUM} sent before, skipped\n"


def test_answers_go_out_through_a_running_node(swarm: LocalSwarm, tmp_path: Path) -> None:
    # given a node that goes on generating, and questions out of its own counters
    node, other = swarm.nodes[1], swarm.nodes[0]
    with resting(*swarm.nodes[::2]):
        lines, author = asked(node.data_dir.root)
        assert author == node.identity.public_key
        file = answered(lines, author, tmp_path / "answers.jsonl")
        shared = status(node)["rollouts"]["shared"]
        # when
        said = swarmd(file, "--data-dir", str(node.data_dir.root))
    # then
    assert said.returncode == 0, said.stderr
    assert "through the running node" in said.stdout
    counters = {int(str(line["counter"])) for line in lines}
    until(lambda: held_of(other, author, counters) == counters, "the rollouts through the node", other)
    until(lambda: status(node)["rollouts"]["shared"] >= shared + NUM, "their count", node)
    # and the node does not use these counters itself: the other would have dropped one of the two
    until(lambda: rounds(node) > max(counters) // 4 + 2, "rounds with later counters", node)
    assert discarded(other) == {}
