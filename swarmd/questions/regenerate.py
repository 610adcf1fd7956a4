"""A question from its address: dataset number and seed give the same question, oracle and metadata on every machine.

Making a dataset imports its library, so only the zygote, commands and tests do that.
"""

import contextlib
import decimal
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from swarmd.errors import ConfigError
from swarmd.questions.datasets import check_dataset, family_of
from swarmd.questions.family import Item, Params

SEED_LIMIT = 2**31
# Seeds tried in a row for a question that is asked. With the shipped parameters half of the seeds have none, so 2^-16 is left.
TRIES_MAX = 16


@dataclass(frozen=True)
class DatasetChoice:
    """One dataset of a manifest as plain values, as they go to the zygote. Without a golden digest nothing is compared."""

    name: str
    params: Params
    reward: str
    golden: str = ""


class QuestionSource:
    """One configured dataset of any family, made once and reseeded for every question.

    `exact_rule` is our own rule where there is one.

    Raises:
        IncompatibleSwarm, ConfigError: see `datasets.check_dataset`; also what the library's own validation refuses.
    """

    def __init__(self, choice: DatasetChoice) -> None:
        params = check_dataset(choice.name, choice.params, choice.reward)
        self.family = family_of(choice.name)
        self.offer = self.family.offered[choice.name]
        try:
            with undisturbed():
                self.dataset = self.family.make(choice.name, params)
        except (AssertionError, ValueError, TypeError) as error:
            raise ConfigError(f"dataset {choice.name}: its parameters were refused", str(error)) from error
        self.name, self.params, self.reward, self.golden = choice.name, params, choice.reward, choice.golden
        self.exact_rule = self.offer.exact if choice.reward == "exact" else None

    def item(self, seed: int) -> Item:
        """The item of this seed; with an exact rule, of the first seed from this one on whose question has a right answer.

        Raises:
            ValueError: the seed is no int of [0, 2^31) (a bool is none); upstream would take it and give an alias or a random item.
                Or none of `TRIES_MAX` seeds has a question to ask.
        """
        if type(seed) is not int or not 0 <= seed < SEED_LIMIT:
            raise ValueError(f"seed {seed!r:.40} is not an integer from 0 to {SEED_LIMIT - 1}")
        if self.exact_rule is None:
            return self._generate(seed)
        for tried in range(seed, seed + TRIES_MAX):
            item = self._generate(tried)
            answer = self.exact_rule.right_answer(item)
            if answer is not None:
                return {**item, "answer": answer}
        raise ValueError(f"none of the seeds {seed} to {seed + TRIES_MAX - 1} has a question with an answer")

    def _generate(self, seed: int) -> Item:
        self.dataset.seed = seed
        with undisturbed():
            return self.dataset[0]


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Run upstream code with default decimal precision, and undo what it does to global random states.

    decimal_arithmetic sets the process's precision, which changed 18 of 25 oracles of the dataset that came after it.
    """
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    python_state = random.getstate()
    try:
        with decimal.localcontext(decimal.Context()):
            yield
    finally:
        random.setstate(python_state)
        if numpy:
            numpy.random.set_state(numpy_state)
