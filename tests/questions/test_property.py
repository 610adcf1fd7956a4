"""The paper's nine: our pipeline equals upstream's on tens of thousands of completions, but for a closed list of differences.

Ours is what a worker runs: caps, extraction, our own rule, range. Upstream's is its own `extract_answer` and `score_answer`. Each
difference below has its reason, is checked for what it may do, and has to occur: a list that nobody needs would hide something.
"""

import decimal
import math
import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from swarmd.protocol.manifest import DatasetSpec, load_manifest
from swarmd.questions.datasets import OFFERED
from swarmd.questions.extract import answer_chars_max
from swarmd.questions.logic import NotAFormula, evaluate
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.scorers import Reason, Score, score
from tests.questions.answers import completions, oracle_of

NINE = load_manifest("reasoning-paper").datasets
_PER_ITEM = 20
# 9 x 20 x 200 = 36,000 cases in 3 s; ten times as many with the slow tests.
_ITEMS, _ITEMS_SLOW = 200, 2000

Case = tuple[str, Mapping[str, Any], str | None, Score, float]


def no_answer(case: Case) -> bool:
    """No closed pair of tags: 0. Upstream's fraction_simplification pays 0.01 for that, too, others ask `None` for its length."""
    return case[2] is None and case[3] == Score(0.0, Reason.NO_ANSWER)


def too_long(case: Case) -> bool:
    """An answer four times as long as the right one, and 128 characters: 0. Upstream searches it, and builds numbers of it."""
    name, item, answer, ours, _ = case
    limit = OFFERED[name].chars_max or answer_chars_max(item["answer"])
    return answer is not None and len(answer) > limit and ours == Score(0.0, Reason.ANSWER_TOO_LONG)


def no_formula(case: Case) -> bool:
    """propositional_logic: a text that is no formula over the declared variables: 0. Upstream takes most text for one."""
    name, item, answer, ours, _ = case
    if name != "propositional_logic" or answer is None:
        return False
    try:
        evaluate(answer, dict.fromkeys(item["metadata"]["variables"], 0), 1)
    except NotAFormula:
        return ours == Score(0.0)
    return False


def python_only(case: Case) -> bool:
    """binary_matrix: the right list as Python reads it and JSON does not (`[[0], [1],]`, a form feed): 0 instead of 0.1."""
    name, _, _, ours, upstream = case
    return name == "binary_matrix" and ours == Score(0.0, Reason.REFUSED) and upstream == 0.1


DIFFERENCES: tuple[Callable[[Case], bool], ...] = (no_answer, too_long, no_formula, python_only)


def upstream_reward(source: QuestionSource, answer: str | None, item: Mapping[str, Any]) -> float:
    """What the package's own scorer says, 0 where it raises or leaves [0, 1]: that is not sane."""
    with decimal.localcontext(decimal.Context()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what `eval` thinks of some texts
        try:
            value = float(source.dataset.score_answer(answer, item))
        except Exception:
            return 0.0
    return min(value, 1.0) if math.isfinite(value) and 0 <= value <= 1 + 1e-9 else 0.0


def compare(spec: DatasetSpec, num_items: int) -> tuple[int, Counter[str], Counter[float]]:
    """How many cases were compared, how many differed for which reason, and which rewards there were."""
    source = QuestionSource(DatasetChoice(spec.name, spec.params, spec.reward))
    from reasoning_gym.utils import extract_answer

    rng, num, differed, rewards = random.Random(spec.name), 0, Counter[str](), Counter[float]()
    others = [oracle_of(source.item(seed)) for seed in range(10)]
    for _ in range(num_items):
        item = source.item(rng.randrange(2**31))
        for completion in completions(item, others, rng, _PER_ITEM):
            num += 1
            ours = score(completion, item, source, "tags")
            answer = extract_answer(completion)
            rewards[ours.reward] += 1
            expected = upstream_reward(source, answer, item)
            if ours.reward != expected:
                case = (spec.name, item, answer, ours, expected)
                reasons = [difference.__name__ for difference in DIFFERENCES if difference(case)]
                assert reasons, (completion, ours, expected)
                differed[reasons[0]] += 1
    return num, differed, rewards


@pytest.mark.parametrize("num_items", [_ITEMS, pytest.param(_ITEMS_SLOW, marks=pytest.mark.slow)])
def test_rewards_equal_upstream_but_for_the_list(num_items: int) -> None:
    total, found = 0, Counter[str]()
    for spec in NINE:
        num, differed, rewards = compare(spec, num_items)
        print(
            f"{spec.name:<24}{num:>7} cases, {len(rewards):>4} different rewards, differences {dict(differed)}"
        )
        assert differed.total() < num / 2
        assert rewards[1.0] > num / 20, "hardly anything was right: the comparison says little"
        total += num
        found += differed
    assert total >= 30_000
    assert set(found) == {difference.__name__ for difference in DIFFERENCES}
