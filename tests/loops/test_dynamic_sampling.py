"""Dynamic sampling: further batches while too few rollouts are informative, never past the bound, nothing hidden."""

import pytest
import trio

from swarmd.clients.policy import Generated
from swarmd.errors import ChildDied, LocalError
from swarmd.experience.own import OwnExperience
from swarmd.loops.answers import OwnRollouts
from tests.loops.fakes import BAD, GOOD
from tests.loops.parts import MANIFEST, Loops

# Every counter is a question to train on, whatever the manifest's digest.
ALL_ASKED = MANIFEST.model_copy(update={"held_out_per_mille": 0})
MIXED, NONE_RIGHT = [GOOD, BAD], [BAD, BAD]


def answering(*texts_R: list[str]) -> Loops:
    """A node whose policy gives these answers, question by question, and the last one for ever."""
    loops = Loops(manifest=ALL_ASKED, staleness_max=99)
    honest, asked = loops.generator.generate, iter(texts_R)

    def generate(**args: object) -> Generated:
        result = honest(**args)  # type: ignore[arg-type]
        completions_RG = [
            [c._replace(text=text) for c, text in zip(row, next(asked, texts_R[-1]), strict=True)]
            for row in result.completions_RG
        ]
        return result._replace(completions_RG=completions_RG)

    loops.generator.generate = generate  # type: ignore[assignment, method-assign]
    return loops


async def once(loops: Loops, generations_max: int) -> OwnExperience:
    await loops.generate(generations_max=generations_max).once()
    own = await loops.progress.take_own()
    assert own is not None
    return own


def num_batches(loops: Loops) -> int:
    return len(loops.generator.asked("generate"))


async def test_enough_signal_at_once_takes_one_batch() -> None:
    loops = answering(MIXED)
    own = await once(loops, generations_max=5)
    assert (num_batches(loops), len(own.rollouts), own.fresh.num_questions) == (1, 4, 4)


async def test_off_is_one_batch_in_the_order_generated_whatever_it_is_worth() -> None:
    loops = answering(NONE_RIGHT, MIXED, NONE_RIGHT)
    own = await once(loops, generations_max=1)
    assert num_batches(loops) == 1
    assert [rollout.counter for rollout in own.rollouts] == [0, 1, 2, 3]


async def test_batches_are_drawn_until_the_round_is_full_of_signal() -> None:
    # given two informative rollouts in the first batch and three in the second
    loops = answering(NONE_RIGHT, MIXED, NONE_RIGHT, MIXED, MIXED, MIXED, NONE_RIGHT, MIXED, NONE_RIGHT)
    own = await once(loops, generations_max=5)
    # then the first four of the five are kept, in their order
    assert num_batches(loops) == 2
    assert [rollout.counter for rollout in own.rollouts] == [1, 3, 4, 5]
    assert (own.num_informative, own.fresh.num_informative, own.fresh.num_questions) == (4, 5, 8)


@pytest.mark.parametrize("bound", [1, 2, 5])
async def test_a_policy_without_any_signal_ends_at_the_bound(bound: int) -> None:
    loops = answering(NONE_RIGHT)
    own = await once(loops, generations_max=bound)
    assert num_batches(loops) == bound
    assert ([r.counter for r in own.rollouts], own.num_informative) == ([0, 1, 2, 3], 0)


async def test_what_is_missing_at_the_bound_is_filled_with_the_rest() -> None:
    loops = answering(*[NONE_RIGHT] * 6, MIXED, NONE_RIGHT)
    own = await once(loops, generations_max=2)
    assert [rollout.counter for rollout in own.rollouts] == [6, 0, 1, 2]


async def test_everything_generated_counts_and_is_shared() -> None:
    loops = answering(*[NONE_RIGHT] * 4, MIXED)
    outbox, shared = trio.open_memory_channel[OwnRollouts](9)
    await loops.generate(outbox=outbox, generations_max=3).once()
    own = await loops.progress.take_own()
    assert own is not None
    assert (own.fresh.reward, own.fresh.num_tokens, own.fresh.seconds) == (0.25, 32, 1.0)
    batches = [shared.receive_nowait().rollouts for _ in range(2)]
    assert [rollout.counter for batch in batches for rollout in batch] == list(range(8))
    assert loops.count("generate_tokens_total", kind="completion") == 32


async def test_no_question_is_asked_twice_and_every_batch_has_a_seed_of_its_own() -> None:
    loops = answering(NONE_RIGHT)
    await once(loops, generations_max=6)
    calls = loops.generator.asked("generate")
    assert len({prompt for args in calls for prompt in args["prompts"]}) == 24
    assert len({args["seed"] for args in calls}) == 6


@pytest.mark.parametrize("op", ["generate", "score", "questions"])
async def test_a_further_batch_that_fails_costs_only_itself(op: str) -> None:
    loops = answering(*[NONE_RIGHT] * 3, MIXED)
    generate = loops.generate(generations_max=3)
    ask = generate.ask.questions

    async def ask_then_break(num: int) -> object:
        if num_batches(loops) == 1:
            (loops.generator if op == "generate" else loops.scorer).fail(op, ChildDied("gone"))
        return await ask(num)

    generate.ask.questions = ask_then_break  # type: ignore[assignment, method-assign]
    await generate.once()
    own = await loops.progress.take_own()
    assert own is not None
    assert ([r.counter for r in own.rollouts], own.fresh.num_questions) == ([0, 1, 2, 3], 4)


async def test_a_first_batch_that_fails_is_a_lost_round_as_ever() -> None:
    loops = answering(NONE_RIGHT)
    loops.generator.fail("generate", LocalError("CUDA error"))
    with pytest.raises(LocalError):
        await loops.generate(generations_max=3).once()
    assert len(loops.progress.pool) == 0
