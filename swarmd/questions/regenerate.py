"""A question from its address: dataset number and seed give the same question, oracle and metadata on every machine.

This module imports reasoning_gym, so only the zygote and tests use it. It loads the modules of the manifest's datasets and skips
the package's own `__init__`: 0.2 s and 17 MB instead of 1.4 s and 110 MB. Where a release rearranged the modules, it loads the
whole package.
"""

import contextlib
import decimal
import importlib
import importlib.util
import random
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.questions.divisors import common_divisors
from swarmd.questions.guarded import EXACT
from swarmd.questions.guards import GUARDS, check_dataset
from swarmd.questions.logic import follows
from swarmd.questions.parameters import check_order

SEED_LIMIT = 2**31
# The release that the known digests were made with; pyproject.toml says the same.
RELEASE = "0.1.25"
# Seeds tried in a row for a question that is asked. With the shipped parameters half of the seeds have none, so 2^-16 is left.
TRIES_MAX = 16
_PACKAGE = "reasoning_gym"

Item = Mapping[str, Any]
"""What upstream generates: `question` str, `answer` str or None, `metadata` dict."""


@dataclass(frozen=True)
class DatasetChoice:
    """One dataset of a manifest as plain values, as they go to the zygote. Without a golden digest nothing is compared."""

    name: str
    params: Mapping[str, Any]
    reward: str
    golden: str = ""


class QuestionSource:
    """One configured dataset, made once and reseeded for every question.

    `dataset` is upstream's object (its `score_answer` is what `scorers` calls); every offered dataset takes its randomness from
    `Random(self.seed + idx)`, which a test compares with a fresh object per seed. `exact_rule` is our own rule where there is one.

    Raises:
        IncompatibleSwarm, ConfigError: see `guards.check_dataset`; also what upstream's own validation refuses.
    """

    def __init__(self, choice: DatasetChoice) -> None:
        params = check_dataset(choice.name, choice.params, choice.reward)
        load_datasets([choice.name])
        factory = importlib.import_module(f"{_PACKAGE}.factory")
        dataset_type, config_type = factory.DATASETS[choice.name]
        try:
            config = config_type(seed=0, size=1, **params)
            check_order(choice.name, asdict(config))
            with undisturbed():
                config.validate()
                self.dataset = dataset_type(config=config)
        except (AssertionError, ValueError, TypeError) as error:
            raise ConfigError(f"dataset {choice.name}: its parameters were refused", str(error)) from error
        self.name, self.params, self.reward, self.golden = choice.name, params, choice.reward, choice.golden
        self.exact_rule = EXACT.get(choice.name) if choice.reward == "exact" else None

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
            item: Item = self.dataset[0]
        return item


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


def load_datasets(names: Sequence[str]) -> None:
    """Import the modules that register these datasets.

    Raises:
        IncompatibleSwarm: the installed reasoning_gym lacks one of them.
    """
    try:
        _make_bare_packages()
        for name in names:
            importlib.import_module(f"{_PACKAGE}.{GUARDS[name].module}")
    except (ImportError, AttributeError):
        _import_whole_package()
    if arithmetic := sys.modules.get(f"{_PACKAGE}.arithmetic.basic_arithmetic"):
        arithmetic.find_common_divisors = common_divisors  # type: ignore[attr-defined]
    if logic := sys.modules.get(f"{_PACKAGE}.logic.propositional_logic"):
        logic.PropositionalLogicDataset._is_valid_conclusion = follows
    registered = importlib.import_module(f"{_PACKAGE}.factory").DATASETS
    if missing := sorted(set(names) - set(registered)):
        raise IncompatibleSwarm(
            f"the installed reasoning_gym has no dataset {', '.join(missing)}",
            fix=f"install reasoning-gym {RELEASE}",
        )


def _make_bare_packages() -> None:
    """Put empty packages with the right search path in place of `reasoning_gym` and its categories, unless they are loaded."""
    if _PACKAGE in sys.modules:
        return
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise IncompatibleSwarm("reasoning_gym is not installed", fix=f"pip install reasoning-gym=={RELEASE}")
    root = spec.submodule_search_locations[0]
    categories = sorted({guard.module.split(".")[0] for guard in GUARDS.values()})
    for name, folder in [(_PACKAGE, root), *((f"{_PACKAGE}.{c}", f"{root}/{c}") for c in categories)]:
        package = types.ModuleType(name)
        package.__path__ = [folder]
        sys.modules[name] = package


def forget_package() -> None:
    """Forget every module of `reasoning_gym`: whoever imports the package next gets it whole."""
    for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
        del sys.modules[name]


def _import_whole_package() -> None:
    forget_package()
    try:
        importlib.import_module(_PACKAGE)
    except ImportError as error:
        raise IncompatibleSwarm("reasoning_gym cannot be imported", str(error)) from error
