"""After a fall the node learns alone, longer each time, and others come back author by author; the operator is told."""

from dataclasses import replace

import pytest

from swarmd.errors import StateError
from swarmd.experience.rollouts import ScoredRollout
from tests.loops.parts import external_rollout, value
from tests.loops.test_update import codes
from tests.loops.watched import Watched

AUTHORS = [bytes([number]) * 32 for number in range(1, 7)]


def rollouts_of(*authors: bytes) -> list[ScoredRollout]:
    return [replace(external_rollout(counter), author=author) for counter, author in enumerate(authors)]


async def returning(loops: Watched) -> None:
    """Fallen, back at round 5, and past the block alone."""
    await loops.fallen()
    loops.rise()
    await loops.rounds(2)


async def test_a_block_is_learnt_alone_after_a_fall_and_no_round_of_it_is_called_short() -> None:
    loops = Watched()
    await returning(loops)
    await loops.rounds(1)
    assert [(r["num_external"], r["shortfall"]) for r in loops.records[-3:]] == [(0, 0), (0, 0), (4, 0)]


async def test_a_good_block_forgets_no_fall_and_the_next_is_answered_with_four_blocks_alone() -> None:
    loops = Watched()
    loops.external = rollouts_of(*AUTHORS)
    await returning(loops)
    loops.fall()
    await loops.rounds(1)
    assert loops.learner.rollbacks == [(2, 5), (7, 9)]
    loops.rise()
    await loops.rounds(9)
    assert [record["num_external"] for record in loops.records[-9:]] == [0] * 8 + [1]


async def test_a_block_with_others_is_half_as_long_while_a_fall_is_remembered() -> None:
    loops = Watched()
    await returning(loops)
    await loops.rounds(2)
    assert loops.checks()["good"] == 1 + 1 + 2


async def test_others_come_back_author_by_author() -> None:
    loops = Watched()
    loops.external = rollouts_of(*AUTHORS)
    await returning(loops)
    await loops.rounds(4)
    assert [len(record["used_by_author"]) for record in loops.records[-4:]] == [1, 2, 4, 4]
    assert [record["num_authors_out"] for record in loops.records[-4:]] == [5, 4, 2, 0]


async def test_a_fall_alone_is_not_the_swarms_and_forgives_it_those_before() -> None:
    loops = Watched()
    await loops.fallen()
    await loops.rounds(2)
    assert len(loops.learner.rollbacks) == 1
    assert "no external rollout" in loops.said[-1]
    await loops.rounds(1)
    assert loops.records[-1]["num_external"] == 4


async def test_a_fall_whose_checkpoint_is_lost_makes_the_node_learn_alone_all_the_same() -> None:
    loops = Watched()
    loops.learner.fail("rollback", StateError("the checkpoint of round 2 cannot be used"))
    await loops.fallen()
    await loops.rounds(1)
    assert (loops.learner.rollbacks, loops.records[-1]["num_external"]) == ([], 0)


async def test_the_operator_is_told_for_how_long_and_why() -> None:
    loops = Watched()
    await loops.fallen()
    loops.rise()
    assert "others_kept_out" in codes(loops)
    assert loops.progress.shown.canary.kept_out.startswith(
        "Learning alone for 2 more rounds: the policy fell"
    )
    assert value(loops.metrics, "trust_alone_rounds") == 2
    await loops.rounds(1)
    assert loops.progress.shown.canary.kept_out.startswith("Learning alone for 1 more rounds")


async def test_the_operator_is_told_who_is_not_back() -> None:
    loops = Watched()
    loops.external = rollouts_of(*AUTHORS)
    await returning(loops)
    await loops.rounds(1)
    assert "Rollouts of 1 of 6 authors may be drawn" in loops.progress.shown.canary.kept_out
    assert value(loops.metrics, "trust_authors_out") == 5
    await loops.rounds(3)
    assert "others_kept_out" not in codes(loops)
    assert value(loops.metrics, "trust_falls") == 1


@pytest.mark.parametrize("num_rounds", [0, 2])
async def test_nobody_is_kept_out_before_a_fall(num_rounds: int) -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(num_rounds)
    assert loops.progress.shown.canary.kept_out == ""
    assert value(loops.metrics, "trust_alone_rounds") == 0
