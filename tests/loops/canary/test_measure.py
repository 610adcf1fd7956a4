"""The canary in the update loop: a fall takes the policy back once and is told; noise and a node without externals do not."""

import json
from collections.abc import Callable

import pytest

from swarmd.experience.seeds import Seeds
from swarmd.loops.canary.measure import questions_author
from swarmd.loops.evaluate import HELD_OUT_AUTHOR
from tests.loops.parts import MANIFEST, OTHER, Loops
from tests.loops.test_update import codes
from tests.loops.watched import Watched


async def test_a_fall_takes_the_policy_back_and_sets_externals_aside() -> None:
    loops = Watched()
    await loops.fallen()
    assert loops.learner.rollbacks == [(2, 5)]
    assert loops.quarantined == [{OTHER.public_key}]
    assert (loops.progress.round, loops.progress.policy_version) == (5, 5)
    assert loops.learner.saved.name == "round-5"
    assert (loops.count("trust_rollbacks_total"), loops.count("trust_quarantined_rollouts_total")) == (1, 3)
    assert loops.checks() == {"good": 1, "low": 0, "fallen": 1}
    assert "canary_fell" in codes(loops)
    assert "went back to round 2" in loops.said[-1]


async def test_the_checkpoint_to_go_back_to_is_named_in_every_later_state() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(3)
    states = [args["state"] for args in loops.learner.asked("update")]
    assert [state["keep_round"] for state in states] == [None, None, 2]
    json.dumps(states, allow_nan=False)


async def test_after_going_back_it_learns_on_and_a_good_measurement_ends_the_warning() -> None:
    loops = Watched()
    await loops.fallen()
    loops.rise()
    await loops.rounds(2)
    assert loops.learner.applied_rounds == [1, 2, 3, 4, 6, 7]
    assert loops.memory.good_round == 7
    assert "canary_fell" not in codes(loops)


async def test_noise_is_nothing() -> None:
    """Every third answer is wrong, now these, now those."""
    loops = Watched()
    answers = iter(range(10**6))
    loops.scorer.reward_of = lambda text: float(next(answers) * 7919 % 31 < 20)
    await loops.loop.begin()
    await loops.rounds(30)
    assert loops.learner.rollbacks == []
    assert loops.checks()["good"] >= 10


async def test_a_bad_look_that_the_next_refutes_is_a_good_measurement() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(2)
    loops.look([0.0] * 16, [1.0] * 64)
    await loops.rounds(2)
    assert loops.checks() == {"good": 2, "low": 0, "fallen": 0}
    assert (loops.learner.rollbacks, loops.memory.good_round) == ([], 4)


async def test_a_fall_that_is_left_open_is_not_gone_back_to_and_makes_the_node_learn_alone() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(2)
    loops.look([0.0] * 4 + [1.0] * 12, [0.0] * 16 + [1.0] * 48)
    await loops.rounds(3)
    assert loops.checks() == {"good": 1, "low": 1, "fallen": 0}
    assert (loops.learner.rollbacks, loops.memory.good_round) == ([], 2)
    assert loops.records[-1]["num_external"] == 0
    assert "left open" in loops.progress.shown.canary.kept_out


async def test_one_that_is_left_open_without_externals_is_nobody_elses() -> None:
    loops = Watched()
    loops.external = []
    await loops.loop.begin()
    await loops.rounds(2)
    loops.look([0.0] * 4 + [1.0] * 12, [0.0] * 16 + [1.0] * 48)
    await loops.rounds(2)
    assert (loops.checks()["low"], loops.memory.good_round) == (1, 4)


async def test_off_is_off() -> None:
    loops = Watched()
    loops.loop = loops.update()
    await loops.fallen()
    assert loops.generator.asked("generate") == []
    assert "canary" not in loops.learner.saved.state


async def test_a_fall_without_externals_is_not_the_swarms_and_is_accepted() -> None:
    loops = Watched()
    loops.external = []
    await loops.fallen()
    assert (loops.learner.rollbacks, loops.quarantined) == ([], [])
    assert "no external rollout" in loops.said[-1]
    assert "canary_fell" in codes(loops)
    await loops.rounds(2)  # what it is now is the measure
    assert loops.checks() == {"good": 2, "low": 0, "fallen": 1}


# What is measured.


async def test_its_questions_are_held_out_and_nobody_elses() -> None:
    mine, yours = (Seeds(secret * 32, MANIFEST.digest) for secret in (b"m", b"y"))
    assert len(questions_author(mine)) == 32
    assert len({questions_author(mine), questions_author(yours), HELD_OUT_AUTHOR}) == 3
    loops = Loops()
    prompts = []
    for author in (HELD_OUT_AUTHOR, questions_author(mine)):
        evaluate = loops.evaluate(num_questions=16)
        evaluate.author = author
        await evaluate.rewards(1, seed=0)
        prompts.append(set(loops.generator.asked("generate")[-1]["prompts"]))
    assert all(MANIFEST.is_held_out(prompt) for prompt in prompts[1])
    assert prompts[0] != prompts[1]


async def test_a_measurement_costs_one_completion_a_question_once_there_is_a_best() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(6)
    assert [args["num_completions"] for args in loops.generator.asked("generate")] == [4, 1, 1]


async def test_other_settings_begin_anew() -> None:
    loops = Watched()
    await loops.loop.begin()
    await loops.rounds(3)
    other = loops.canary(num_questions=8).memory
    assert (other.best, other.good_round) == ((), None)
    assert loops.canary().memory.good_round == 2


def first(num: int) -> Callable[[str], bool]:
    """Holds out the first `num` texts that it is asked about, and no other."""
    texts = list[str]()

    def is_held_out(prompt: str) -> bool:
        texts.append(prompt)
        return prompt in texts[:num]

    return is_held_out


@pytest.mark.parametrize("num_held_out", [0, 1])
async def test_a_manifest_with_too_few_held_out_questions_leaves_it_off_and_that_is_told_once(
    num_held_out: int,
) -> None:
    loops = Watched()
    loops.scorer.is_held_out = first(num_held_out)
    await loops.fallen()
    drawn = len(loops.scorer.asked("questions"))
    await loops.rounds(4)
    assert len(loops.scorer.asked("questions")) == drawn
    assert [line for line in loops.said if "canary" in line] == [
        f"! canary     off: the swarm's manifest holds {num_held_out or 'no'} question out, and a measurement needs 2"
    ]
    assert (loops.progress.round, loops.learner.rollbacks) == (8, [])


async def test_two_held_out_questions_are_enough() -> None:
    loops = Watched()
    loops.scorer.is_held_out = first(2)
    await loops.fallen()
    assert loops.checks() == {"good": 1, "low": 0, "fallen": 1}
