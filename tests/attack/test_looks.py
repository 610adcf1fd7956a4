"""What is read from a node's files."""

from pathlib import Path

import pytest

from swarmd.experiment.cell import identity_seed
from swarmd.experiment.swarms.local_swarm import LocalNode
from swarmd.files.datadir import DataDir
from swarmd.protocol.signing import Identity
from swarmd.trust.standing import Standings
from swarmd.trust.standings_file import encode, rows_of
from tests.attack.looks import Book, book

NOW_S = 1_800_000_000.0


@pytest.fixture
def node(tmp_path: Path) -> LocalNode:
    return LocalNode("node-0", DataDir(tmp_path), Identity.from_seed(identity_seed(0, 0)), 1)


def test_a_ban_that_is_over_is_still_in_the_standings(node: LocalNode) -> None:
    # given
    standings = Standings(32, 100.0)
    standings.scored(node.identity.public_key, num_rollouts=7)
    standings.accuse(node.identity.public_key, "signed_reject", NOW_S, num=5)
    # when
    node.data_dir.standings.write_bytes(encode(rows_of(standings, NOW_S + 10**6)))
    # then
    assert book(node).num_scored == {node.identity.peer_id: 7}
    assert book(node).proof == {node.identity.peer_id: 7}
    assert book(node).num_bans == {node.identity.peer_id: 1}


def test_no_file_knows_nobody(node: LocalNode) -> None:
    assert book(node) == Book({}, {})


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"authors": [1]}', '{"authors": [{}]}'])
def test_another_file_is_an_error(node: LocalNode, content: str) -> None:
    node.data_dir.standings.write_text(content)
    with pytest.raises(ValueError):
        book(node)
