"""A data directory that an earlier version left behind is gone on from; and a copy of it may be put back at any time."""

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from swarmd.protocol.signing import Identity
from tests.e2e.watch import rounds, status, until
from tests.upgrade.keep import ARGUMENTS, BANNED, HERE, NODE

KEPT = sorted(HERE.glob("*.tar.xz"))


def unpack(archive: Path, root: Path) -> None:
    with tarfile.open(archive) as source:
        source.extractall(root, filter="data")
    (root / NODE).chmod(0o700)


def state_of(root: Path) -> dict[str, object]:
    """What the newest checkpoint keeps of the node, as it lies there: not as this version reads it."""
    newest = max((root / NODE / "checkpoints").glob("round-*"))
    return json.loads((newest / "state.json").read_text())["state"]  # type: ignore[no-any-return]


def num_rows(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT count(*) FROM rollouts").fetchone()[0])


def started(root: Path) -> LocalSwarm:
    return LocalSwarm(root, 1, arguments=(*ARGUMENTS, "--solo", "--mix", "2/0"))


def go_on(root: Path, num_rounds: int) -> tuple[int, int, str, list[dict[str, object]]]:
    """Run the node for so many rounds: the first one's number, the counter then, who it says it is, and its bans."""
    with started(root) as swarm:
        swarm.start()
        node = swarm.nodes[0]
        before = len(history(node))
        until(lambda: rounds(node) and len(history(node)) >= before + num_rounds, "rounds", node)
        told, bans = status(node), node.ask("/v1/bans")["bans"]
        swarm.stop(evaluate=False)
        assert node.process is not None
        assert node.process.returncode == 0, node.output()
    return history(node)[before], int(str(state_of(root)["next_counter"])), told["peer_id"], bans


def history(node: LocalNode) -> list[int]:
    return [json.loads(line)["round"] for line in node.data_dir.rounds.read_text().splitlines()]


def test_a_directory_of_the_running_version_is_kept() -> None:
    assert KEPT


@pytest.mark.parametrize("archive", KEPT, ids=lambda path: path.name)
def test_an_earlier_versions_directory_is_gone_on_from(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.chdir(tmp_path)
    unpack(archive, tmp_path)
    then, held = state_of(tmp_path), num_rows(tmp_path / NODE / "buffer.sqlite")
    identity = Identity.from_seed((tmp_path / NODE / "identity.key").read_bytes())
    assert held
    # when
    first, counter, peer_id, bans = go_on(tmp_path, 2)
    # then policy, counter, identity, buffer and bans are those of the earlier version
    assert first == int(str(then["round"])) + 1
    assert counter > int(str(then["next_counter"]))
    assert peer_id == identity.peer_id
    assert [ban["peer_id"] for ban in bans if ban["by"] == "operator"] == [BANNED]
    assert num_rows(tmp_path / NODE / "buffer.sqlite") >= held
    assert not list((tmp_path / NODE).glob("*corrupt*")) + list((tmp_path / NODE).glob("*damaged*"))


@pytest.mark.slow
@pytest.mark.parametrize("archive", KEPT, ids=lambda path: path.name)
def test_a_copy_put_back_asks_no_question_twice(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a node that has gone on
    monkeypatch.chdir(tmp_path)
    unpack(archive, tmp_path)
    first, counter, _, _ = go_on(tmp_path, 2)
    # when last week's copy is put back
    (tmp_path / NODE).rename(tmp_path / "newer")
    unpack(archive, tmp_path)
    again, later, _, _ = go_on(tmp_path, 1)
    # then the rounds since are gone, and no number is given out again
    assert again == first
    assert later > counter
