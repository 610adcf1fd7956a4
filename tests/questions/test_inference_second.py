"""The rule of propositional_logic and a second one, written from the prose alone, agree on questions and hostile answers."""

import random
from collections import Counter
from itertools import combinations

from swarmd.protocol.manifest import load_manifest
from swarmd.questions.family import Item
from swarmd.questions.inference import facts_of, right_answer, score_inference, written
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from tests.protocol.second import inference as second
from tests.questions.answers import SPACES

_CHARACTERS = "PQRSTUVp PQRSTU()()¬∧∨→↔¬∧∨→↔ ~&|Ｑ1\u200b" + SPACES


def _given(item: Item) -> tuple[list[str], list[str]]:
    return item["metadata"]["premises"], item["metadata"]["variables"]


def _answers(item: Item, rng: random.Random) -> list[str]:
    """Facts, facts joined and changed, premises, and characters in any order."""
    premises, variables = _given(item)
    known = [written(fact, variables) for fact in sorted(facts_of(item), key=str)]
    joined = [f"({a}) ∧ ({b})" for a, b in combinations(known[:5], 2)]
    good = [*known, *joined, *premises, *(f"{name} ↔ {other}" for name, other in combinations(variables, 2))]
    changed = []
    for text in rng.choices(good, k=20):
        place = rng.randrange(len(text) + 1)
        changed.append(text[:place] + rng.choice(_CHARACTERS) + text[place + rng.randrange(2) :])
    noise = ["".join(rng.choices(_CHARACTERS, k=rng.randrange(12))) for _ in range(10)]
    literals = [sign + name for name in variables for sign in ("", "¬¬", "¬")]
    return [*rng.sample(good, min(12, len(good))), *literals, *changed, *noise]


def test_both_have_the_same_facts_right_answers_and_rewards() -> None:
    shipped = next(spec for spec in load_manifest("reasoning").datasets if spec.name == "propositional_logic")
    wide = {"min_vars": 1, "max_vars": 4, "min_statements": 1, "max_statements": 5, "max_complexity": 4}
    rng, rewards = random.Random(5), Counter[float]()
    for params, num in ((shipped.params, 12), (wide, 250)):
        source = QuestionSource(DatasetChoice("propositional_logic", params, "upstream"))
        for _ in range(num):
            item = source.item(rng.randrange(2**31))
            premises, variables = _given(item)
            assert {written(fact, variables) for fact in facts_of(item)} == {
                second.written(fact) for fact in second.facts(premises, variables)
            }
            assert right_answer(item) == second.right(premises, variables)
            for answer in rng.sample(_answers(item, rng), 20):
                ours = score_inference(answer, item)
                assert ours == second.reward(answer, premises, variables), (answer, premises)
                rewards[ours] += 1
    assert rewards[1.0] > 50
    assert rewards[0.0] > 2000
