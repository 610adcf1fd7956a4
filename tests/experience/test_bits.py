"""A disk that gives back other bits than were written costs the rollouts that they are in, and never the node."""

import random
from pathlib import Path

import pytest

from swarmd.experience.rollouts import ScoredRollout
from tests.experience.batches import NOW_MS, add, open_buffer

AUTHORS = ("ann", "bob", "cy")
NUM, ADDED = 60, "added later"


def text(rollout: ScoredRollout) -> str:
    return rollout.completions[0].text.removesuffix(" 0")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[bytes, int], ScoredRollout]]:
    """A buffer's file, closed, and the rollouts in it by author and counter."""
    folder = tmp_path_factory.mktemp("whole")
    buffer = open_buffer(folder, uses_max=9)
    for name in AUTHORS:
        add(buffer, name, range(NUM), text="a word and another " * 8)
    drawn = buffer.sample(10_000, random.Random(0), now_ms=NOW_MS).rollouts
    assert len(drawn) == len(AUTHORS) * NUM
    buffer.close()
    return folder / "buffer.sqlite", {(one.author, one.counter): one for one in drawn}


@pytest.mark.parametrize("seed", range(250))
def test_what_is_drawn_is_what_was_stored(
    tmp_path: Path, whole: tuple[Path, dict[tuple[bytes, int], ScoredRollout]], seed: int
) -> None:
    path, stored = whole
    rng = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 20))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    (tmp_path / "buffer.sqlite").write_bytes(data)
    for _ in range(2):  # as a node that starts again
        buffer = open_buffer(tmp_path, uses_max=9, rollouts_max=170)
        drawn = [
            rollout
            for _ in range(3)
            for rollout in buffer.sample(10_000, random.Random(1), now_ms=NOW_MS).rollouts
        ]
        assert all(stored[one.author, one.counter] == one for one in drawn if one.counter < NUM)
        assert all(text(one) == ADDED for one in drawn if one.counter >= NUM)
        for name in (*AUTHORS, "dee"):
            add(buffer, name, range(NUM, NUM + 5), text=ADDED)
        buffer.counts()
        buffer.quarantine([b"nobody"])
        buffer.close()


def test_a_damaged_rollout_is_dropped_and_counted(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, uses_max=9)
    add(buffer, "ann", range(4))
    buffer._store.transaction(
        lambda db: db.execute(
            "UPDATE payloads SET payload = replace(payload, '4', '5') WHERE id = 2"
        ).fetchall()
    )
    buffer._store.transaction(lambda db: db.execute("DELETE FROM payloads WHERE id = 3").fetchall())
    sample = buffer.sample(4, random.Random(1), now_ms=NOW_MS)
    assert (len(sample.rollouts), sample.num_damaged, sample.shortfall) == (2, 2, 2)
    again = buffer.sample(4, random.Random(1), now_ms=NOW_MS)
    assert (len(again.rollouts), again.num_damaged, again.shortfall) == (2, 0, 2)
    assert buffer.counts().num_rollouts == 2
