"""A node's identity is the one that its checkpoints name, and its question counter is theirs at least."""

from pathlib import Path

import pytest

from swarmd.errors import StateError
from swarmd.files.datadir import DataDir
from swarmd.node.own import make_identity, open_counter, own_identity
from swarmd.protocol.signing import Identity

SEED = b"\x07" * 32
STATE = {"identity": Identity.from_seed(SEED).public_key.hex(), "next_counter": 40}


def test_without_checkpoints_an_identity_is_made(tmp_path: Path) -> None:
    seed, identity, new = own_identity(DataDir(tmp_path), {})
    assert new
    assert own_identity(DataDir(tmp_path), {})[::2] == (seed, False)
    assert own_identity(DataDir(tmp_path), {"identity": identity.public_key.hex()})[0] == seed


def test_a_missing_identity_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="it is missing") as refused:
        own_identity(DataDir(tmp_path), STATE)
    assert "restore your copy" in refused.value.fix
    assert not DataDir(tmp_path).identity.exists()


@pytest.mark.parametrize("bit", range(0, 256, 5))
def test_one_bit_of_the_identity_is_another_one_and_refused(tmp_path: Path, bit: int) -> None:
    data_dir = DataDir(tmp_path)
    make_identity(data_dir, SEED)
    assert own_identity(data_dir, STATE)[0] == SEED
    damaged = (int.from_bytes(SEED) ^ 1 << bit).to_bytes(32)
    data_dir.identity.write_bytes(damaged)
    with pytest.raises(StateError, match="not the identity that this node had"):
        own_identity(data_dir, STATE)
    assert data_dir.identity.read_bytes() == damaged


def test_the_counter_is_at_least_the_checkpoints(tmp_path: Path) -> None:
    counter = open_counter(DataDir(tmp_path), STATE, new=False)
    assert counter.reserve(1) > 40
    assert counter.note


def test_an_identity_that_was_made_for_an_experiment_begins_at_0(tmp_path: Path) -> None:
    make_identity(DataDir(tmp_path), SEED)
    counter = open_counter(DataDir(tmp_path), {}, new=False)
    assert (counter.reserve(1), counter.note) == (0, "")
