"""Checking: what a receiver would refuse, or learn nothing from, is found before anything is sent."""

from typing import Any

import pytest

from swarmd.clients.scorer import Questions, Scorer
from swarmd.contribute.check import Review, review
from swarmd.contribute.ledger import Asked, State
from swarmd.contribute.lines import Line
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.types import Completion
from tests.loops.fakes import BAD, GOOD, FakeScorer
from tests.loops.parts import MANIFEST, ME

PRODUCTS = [dataset.name for dataset in MANIFEST.datasets].index("products")
LIMITS = MANIFEST.limits


def asked(state: State = State.OPEN, *, answers: bytes | None = None, **changes: Any) -> dict[int, Asked]:
    """Counter 7 as the ledger knows it."""
    fields = {"swarm": MANIFEST.digest, "dataset": PRODUCTS, "state": state, "answers": answers}
    return {7: Asked(**{**fields, **changes})}


def line(*completions: str, number: int = 1, counter: int = 7, question: str | None = None) -> Line:
    return Line(number, "products", counter, question, completions)


async def check(
    *lines: Line,
    known: dict[int, Asked] | None = None,
    scorer: FakeScorer | None = None,
    manifest: Manifest = MANIFEST,
) -> Review:
    return await review(
        lines,
        asked() if known is None else known,
        scorer=Scorer(scorer or FakeScorer(manifest), deadline_s=20.0),
        manifest=manifest,
        author=ME.public_key,
    )


async def fault(*lines: Line, **changes: Any) -> str:
    """What is wrong with the one line that is faulty."""
    result = await check(*lines, **changes)
    assert not result.checked
    ((number, what),) = result.problems
    assert number == lines[-1].number
    assert what.isprintable()
    return what


async def test_right_and_wrong_answers_are_informative() -> None:
    (checked,) = (await check(line(GOOD, BAD))).checked
    assert (checked.rewards_G, checked.informative) == ([1.0, 0.0], True)


@pytest.mark.parametrize("text", [GOOD, BAD])
async def test_equal_rewards_are_not(text: str) -> None:
    (checked,) = (await check(line(text, text))).checked
    assert not checked.informative


async def test_what_is_sent_claims_nothing_and_is_finished() -> None:
    (checked,) = (await check(line(GOOD, BAD))).checked
    assert checked.rollout.completions == tuple(Completion(text=text, finished=True) for text in (GOOD, BAD))
    assert (checked.rollout.dataset, checked.rollout.counter) == (PRODUCTS, 7)


async def test_the_question_is_rebuilt_from_the_ledger() -> None:
    scorer = FakeScorer(MANIFEST)
    (checked,) = (await check(line(GOOD, BAD), scorer=scorer)).checked
    seed = MANIFEST.question_seed(ME.public_key, PRODUCTS, 7)
    assert scorer.asked("score")[0]["items"] == [(PRODUCTS, seed, (GOOD, BAD))]
    assert checked.prompt == MANIFEST.render(f"question {PRODUCTS} {seed}")


async def test_the_text_that_was_printed_is_taken_back() -> None:
    prompt = MANIFEST.render(f"question {PRODUCTS} {MANIFEST.question_seed(ME.public_key, PRODUCTS, 7)}")
    assert len((await check(line(GOOD, BAD, question=prompt))).checked) == 1


async def test_another_question_is_no_question_of_that_address() -> None:
    assert "not the question at counter 7" in await fault(line(GOOD, BAD, question="What is 1 + 1?"))


async def test_every_line_goes_to_one_place() -> None:
    known = asked() | {8: asked(State.SENT)[7], 9: asked()[7]}
    result = await check(
        line(GOOD, BAD),
        line(GOOD, BAD, number=2, counter=8),
        line(number=3, counter=9),
        line(GOOD, BAD, number=4, counter=10),
        known=known,
    )
    assert [checked.line.number for checked in result.checked] == [1]
    assert [one.number for one in result.sent] == [2]
    assert [one.number for one in result.unanswered] == [3]
    assert [problem.line for problem in result.problems] == [4]


async def test_a_counter_that_was_never_asked_is_refused() -> None:
    assert "never asked" in await fault(line(GOOD, BAD, counter=99))


async def test_a_question_of_another_swarm_is_refused() -> None:
    what = await fault(line(GOOD, BAD), known=asked(swarm=b"\x01" * 32))
    assert "another swarm (manifest 0101" in what


async def test_another_dataset_than_was_asked_is_refused() -> None:
    what = await fault(Line(1, "\x1b[2J", 7, None, (GOOD, BAD)))
    assert r"asked of products, not of '\x1b[2J'" in what


async def test_other_answers_than_those_that_may_be_out_are_refused() -> None:
    what = await fault(line(GOOD, BAD), known=asked(State.LEAVING, answers=line(BAD, GOOD).digest))
    assert "may be out already" in what


async def test_the_answers_that_may_be_out_can_go_again() -> None:
    known = asked(State.LEAVING, answers=line(GOOD, BAD).digest)
    assert len((await check(line(GOOD, BAD), known=known)).checked) == 1


@pytest.mark.parametrize("num", [1, LIMITS.completions_max + 1])
async def test_too_few_or_too_many_answers_are_refused(num: int) -> None:
    said = f"{num} completions, the swarm takes {LIMITS.completions_min} to {LIMITS.completions_max}"
    assert await fault(line(*[GOOD] * num)) == said


@pytest.mark.parametrize("size", [LIMITS.completion_bytes_max + 1, 100_000])
async def test_an_answer_too_long_is_refused(size: int) -> None:
    assert f"completion 2 has {size} bytes" in await fault(line(GOOD, "x" * size))


async def test_bytes_count_and_not_characters() -> None:
    text = "é" * (LIMITS.completion_bytes_max // 2)
    assert len((await check(line(GOOD, text))).checked) == 1
    assert "completion 2 has" in await fault(line(GOOD, text + "x"))


async def test_answers_that_no_message_holds_are_refused() -> None:
    texts = [str(number) * (LIMITS.completion_bytes_max // 2) for number in range(10, 60)]
    assert "do not fit into one message" in await fault(line(*texts))


async def test_a_held_out_question_is_refused() -> None:
    scorer = FakeScorer(MANIFEST)
    scorer.questions = lambda addresses: Questions(["q"], [True])  # type: ignore[method-assign]
    assert "held-out" in await fault(line(GOOD, BAD), scorer=scorer)


async def test_nothing_faulty_reaches_the_scorer() -> None:
    scorer = FakeScorer(MANIFEST)
    await fault(line(GOOD), scorer=scorer)
    await fault(line(GOOD, BAD, counter=99), scorer=scorer)
    assert scorer.calls == []
