"""Quarantine: what is held of some authors is never drawn again, through restarts and other settings; the rest is as it was."""

import random
from pathlib import Path

import pytest

from tests.experience.batches import NOW_MS, UNINFORMATIVE, add, author, open_buffer


def test_only_what_these_authors_sent_is_taken(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2])
    add(buffer, "bob", [3, 4, 5])
    assert buffer.quarantine([author("bob"), author("eve")]) == 3
    sample = buffer.sample(9, random.Random(1), now_ms=NOW_MS)
    assert {rollout.author for rollout in sample.rollouts} == {author("ann")}
    assert buffer.counts().num_rollouts == 5


def test_what_could_not_be_drawn_is_not_counted(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2])
    add(buffer, "bob", [3], rewards_G=UNINFORMATIVE)
    buffer.sample(1, random.Random(1), now_ms=NOW_MS)
    assert buffer.quarantine([author("ann"), author("bob")]) == 1
    assert buffer.quarantine([author("ann"), author("bob")]) == 0
    assert buffer.quarantine([]) == 0


@pytest.mark.parametrize("uses_max", [1, 1000])
def test_it_outlasts_a_restart_that_allows_more_uses(tmp_path: Path, uses_max: int) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2])
    buffer.quarantine([author("ann")])
    buffer.close()
    again = open_buffer(tmp_path, uses_max=uses_max)
    assert again.sample(9, random.Random(1), now_ms=NOW_MS).rollouts == []


def test_the_same_rollout_does_not_come_back_as_a_new_one(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1])
    buffer.quarantine([author("ann")])
    assert add(buffer, "ann", [1], text="<answer>5</answer>").num_duplicate == 1


def test_it_goes_first_when_there_is_too_much(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=2)
    add(buffer, "eve", [1], now_ms=NOW_MS)
    buffer.quarantine([author("eve")])
    add(buffer, "ann", [2], age_s=60)
    add(buffer, "bob", [3], age_s=60)
    sample = buffer.sample(9, random.Random(1), now_ms=NOW_MS)
    assert {rollout.author for rollout in sample.rollouts} == {author("ann"), author("bob")}


def test_what_such_an_author_sends_later_is_drawn(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1])
    buffer.quarantine([author("ann")])
    add(buffer, "ann", [2])
    assert [r.counter for r in buffer.sample(9, random.Random(1), now_ms=NOW_MS).rollouts] == [2]
