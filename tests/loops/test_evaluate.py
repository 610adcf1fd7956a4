"""Evaluate: the same held-out questions for everybody, a mean with an honest error, at the start and the end."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from swarmd.clients.scorer import Address, Questions, ScoreItem, Scores
from swarmd.errors import ChildDied, LocalError
from tests.loops.fakes import GOOD
from tests.loops.parts import MANIFEST, Loops, own_batch


def asked(loops: Loops) -> list[str]:
    return list(loops.generator.asked("generate")[-1]["prompts"])


async def test_only_held_out_questions_each_once() -> None:
    loops = Loops()
    await loops.evaluate(num_questions=20).once(round=0)
    assert len(asked(loops)) == len(set(asked(loops))) == 20
    assert all(MANIFEST.is_held_out(prompt) for prompt in asked(loops))


async def test_a_question_that_comes_up_twice_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = Loops(manifest=MANIFEST.model_copy(update={"held_out_per_mille": 500}))
    questions = loops.scorer.questions
    monkeypatch.setattr(
        loops.scorer,
        "questions",
        lambda addresses: questions([Address(0, seed % 40) for _, seed in addresses]),
    )
    await loops.evaluate(num_questions=10).once(round=0)
    assert len(asked(loops)) == len(set(asked(loops))) == 10


async def test_all_nodes_ask_the_same_in_every_round() -> None:
    ours, theirs = Loops(), Loops()
    theirs.seeds = None  # type: ignore[assignment]
    evaluate = ours.evaluate()
    await evaluate.once(round=0)
    first = asked(ours)
    await evaluate.once(round=9)
    await theirs.evaluate().once(round=3)
    assert asked(ours) == first == asked(theirs)
    assert len(ours.scorer.asked("questions")) == len(theirs.scorer.asked("questions"))


async def test_the_error_is_that_of_the_questions_means() -> None:
    loops = Loops()
    rewards = iter([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    loops.scorer.reward_of = lambda text: next(rewards)
    result = await loops.evaluate(num_questions=3).once(round=2)
    # means of the questions: 0.5, 1, 0; their sample deviation is 0.5
    assert result["mean"] == 0.5
    assert result["standard_error"] == pytest.approx(0.5 / math.sqrt(3))
    assert (result["num_questions"], result["num_completions"], result["round"]) == (3, 6, 2)


async def test_each_dataset_has_a_mean_and_a_number_of_its_own() -> None:
    # given one dataset in which every answer is right, and others in which none is
    loops = Loops()
    easy = MANIFEST.datasets[0].name
    score = loops.scorer.score

    def by_dataset(items: Sequence[ScoreItem], deadline_s: float) -> Scores:
        rewards_RG = [[float(item.dataset == 0)] * len(item.texts) for item in items]
        return score(items, deadline_s)._replace(rewards_RG=rewards_RG)

    loops.scorer.score = by_dataset  # type: ignore[method-assign]
    # when
    result = await loops.evaluate(num_questions=40).once(round=0)
    # then
    found = result["by_dataset"]
    assert list(found) == [dataset.name for dataset in MANIFEST.datasets]
    assert {name: value for name, (value, _) in found.items()} == {
        name: float(name == easy) for name in found
    }
    assert sum(num for _, num in found.values()) == 40
    assert result["mean"] == found[easy][1] / 40


async def test_a_dataset_that_no_question_is_of_is_not_told_of() -> None:
    result = await Loops().evaluate(num_questions=1).once(round=0)
    assert [num for _, num in result["by_dataset"].values()] == [1]


async def test_datasets_of_one_name_are_told_of_together() -> None:
    twice = (MANIFEST.datasets[0], MANIFEST.datasets[0].model_copy(update={"weight": 2.0}))
    loops = Loops(manifest=MANIFEST.model_copy(update={"datasets": twice}))
    result = await loops.evaluate(num_questions=8).once(round=0)
    assert result["by_dataset"] == {twice[0].name: (0.5, 8)}


async def test_a_question_that_cannot_be_made_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = Loops()
    questions = loops.scorer.questions

    def without_some(addresses: Sequence[Address]) -> Questions:
        all_made = questions(addresses)
        made = [address.seed % 2 for address in addresses]
        prompts = [prompt if there else "" for prompt, there in zip(all_made.prompts, made, strict=True)]
        held_out = [not p or held for p, held in zip(prompts, all_made.held_out, strict=True)]
        return Questions(prompts, held_out)

    monkeypatch.setattr(loops.scorer, "questions", without_some)
    await loops.evaluate(num_questions=20).once(round=0)
    assert len(asked(loops)) == 20
    assert "" not in asked(loops)


# What the scorer cannot score.


@pytest.mark.parametrize("reason", ["zygote_died", "not_regenerated", "deadline", "worker_died"])
async def test_a_scorer_that_fails_measures_nothing(reason: str) -> None:
    loops = Loops()
    loops.scorer.reason_of = lambda text: reason
    with pytest.raises(LocalError, match="could not score"):
        await loops.evaluate().once(round=0)


@pytest.mark.parametrize("reason", ["deadline", "worker_died"])
async def test_a_moment_without_time_or_memory_costs_a_second_scoring(reason: str) -> None:
    loops = Loops()
    reasons = iter([reason])
    loops.scorer.reason_of = lambda text: next(reasons, None)
    result = await loops.evaluate(num_questions=3).once(round=0)
    assert (result["mean"], len(loops.scorer.asked("score"))) == (0.5, 2)


@pytest.mark.parametrize(
    ("reason", "num_calls"), [("deadline", 3), ("worker_died", 3), ("cpu_limit", 1), ("forged_reply", 1)]
)
async def test_what_only_the_policys_texts_bring_about_counts_as_wrong(reason: str, num_calls: int) -> None:
    loops = Loops()
    loops.generator.texts = [GOOD, GOOD, GOOD, "hangs"]
    loops.scorer.reason_of = lambda text: reason if text == "hangs" else None
    evaluate = loops.evaluate(num_questions=3)
    evaluate.num_completions = 4
    assert (await evaluate.once(round=0))["mean"] == 0.75
    assert len(loops.scorer.asked("score")) == num_calls


async def test_an_evaluation_that_cannot_be_scored_is_left_out() -> None:
    loops = Loops()
    loops.scorer.reason_of = lambda text: "zygote_died"
    loops.progress.put_own(own_batch())
    assert await run(loops, rounds_max=1) == []
    assert loops.progress.round == 1


async def test_one_question_has_no_spread() -> None:
    assert (await Loops().evaluate(num_questions=1).once(round=0))["standard_error"] == 0.0


async def test_a_swarm_that_holds_nothing_out_cannot_be_evaluated() -> None:
    loops = Loops(manifest=MANIFEST.model_copy(update={"held_out_per_mille": 0}))
    with pytest.raises(LocalError, match="holds no question out"):
        await loops.evaluate(num_questions=1).once(round=0)


async def run(loops: Loops, **settings: Any) -> list[dict[str, Any]]:
    """The evaluations of a run."""
    results = list[dict[str, Any]]()
    settings = {"evaluate": loops.evaluate(), "on_evaluation": results.append, **settings}
    await loops.update(**settings).run()
    return results


async def test_the_policy_is_measured_before_the_first_round_and_after_the_last() -> None:
    loops = Loops(staleness_max=9)
    for _ in range(3):
        loops.progress.put_own(own_batch())
    assert [result["round"] for result in await run(loops, rounds_max=3)] == [0, 3]
    assert loops.count("eval_score") == 0.5


async def test_and_every_few_rounds_in_between_but_never_twice() -> None:
    loops = Loops(staleness_max=9)
    for _ in range(4):
        loops.progress.put_own(own_batch())
    results = await run(loops, rounds_max=4, evaluate_every_rounds=2)
    assert [result["round"] for result in results] == [0, 2, 4]


async def test_a_restarted_node_does_not_measure_again_at_its_start() -> None:
    loops = Loops()
    loops.progress.round = 5
    loops.progress.request_stop()
    assert await run(loops) == []


@pytest.mark.parametrize(("wanted", "rounds"), [(True, [7]), (False, [])])
async def test_a_stop_measures_only_when_asked_to(wanted: bool, rounds: list[int]) -> None:
    loops = Loops()
    loops.progress.round = 7
    loops.progress.request_stop(evaluate=wanted)
    assert [result["round"] for result in await run(loops)] == rounds


@pytest.mark.parametrize("op", ["questions", "generate", "score"])
async def test_an_evaluation_that_fails_does_not_stop_training(op: str) -> None:
    loops = Loops()
    child = loops.generator if op == "generate" else loops.scorer
    child.fail(op, ChildDied("gone"))
    loops.progress.put_own(own_batch())
    results = await run(loops, rounds_max=1)
    assert [result["round"] for result in results] == [1]


async def test_generation_goes_on_while_the_policy_is_measured(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops(split=True)
    loops.generator.texts = [GOOD]
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loops.generate().run)
            results = await run(loops, rounds_max=3, evaluate_every_rounds=1)
            nursery.cancel_scope.cancel()
    assert [result["mean"] for result in results] == [1.0] * 4
