"""A question from its address: the same for everyone, with no side effects."""

import decimal
import json
import random
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.questions.datasets import OFFERED
from swarmd.questions.gym import load
from swarmd.questions.regenerate import DatasetChoice, QuestionSource


def source_of(name: str, reward: str = "exact", **params: Any) -> QuestionSource:
    return QuestionSource(DatasetChoice(name, params, reward))


@pytest.mark.parametrize("name", OFFERED)
def test_a_reseeded_dataset_equals_a_fresh_one(name: str) -> None:
    source = source_of(name, "exact" if OFFERED[name].exact_only else "upstream")
    dataset_type, config_type = import_module("reasoning_gym.factory").DATASETS[name]
    for seed in (0, 5, 7, 5, 2**31 - 1, *range(100, 120)):
        with decimal.localcontext(decimal.Context()):
            fresh = dataset_type(config_type(**{**asdict(source.dataset.config), "seed": seed}))[0]
        assert json.dumps(source.item(seed), default=str) == json.dumps(fresh, default=str)


@pytest.mark.parametrize("seed", [-1, 2**31, True, None, 1.0, "1"])
def test_only_strict_seeds(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed"):
        source_of("gcd").item(seed)


def test_decimal_precision_does_not_leak_between_datasets() -> None:
    sums, decimals = (
        source_of("decimal_chain_sum", max_digits=10),
        source_of("decimal_arithmetic", precision=5),
    )
    before = sums.item(3)
    decimals.item(3)
    assert sums.item(3) == before
    assert decimal.getcontext().prec == 28


def test_the_precision_of_the_process_does_not_reach_a_question() -> None:
    sums = source_of("decimal_chain_sum", max_digits=10)
    expected = sums.item(3)
    with decimal.localcontext(prec=4):
        assert sums.item(3) == expected


def test_global_random_states_are_left_alone() -> None:
    source = source_of("number_sorting")
    random.seed(1)
    np.random.seed(1)
    expected = random.getstate(), np.random.get_state()[1].tolist()
    source.item(3)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == expected


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("gcd", {"min_value": 5000}),
        ("simple_geometry", {"min_sides": 9}),
        ("decimal_arithmetic", {"precision": 3}),
    ],
)
def test_what_upstream_would_refuse_is_a_config_error(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=name):
        source_of(name, **params)


_WHOLE = """
import sys
from swarmd.questions import gym, regenerate
if "whole" in sys.argv:
    def refuse():
        raise ImportError
    gym._make_bare_packages = refuse
sources = [regenerate.QuestionSource(regenerate.DatasetChoice(name, {}, "exact")) for name in ("gcd", "number_sorting")]
print([source.item(seed) for source in sources for seed in range(5)], "sympy" in sys.modules)
"""


def test_the_whole_package_is_imported_when_the_modules_cannot_be() -> None:
    lean, whole = (
        subprocess.run(
            [sys.executable, "-c", _WHOLE, mode], capture_output=True, text=True, check=True
        ).stdout
        for mode in ("lean", "whole")
    )
    assert lean.rpartition(" ")[0] == whole.rpartition(" ")[0]
    assert (lean.split()[-1], whole.split()[-1]) == ("False", "True")


def test_a_dataset_missing_from_the_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    load(["gcd"])
    monkeypatch.delitem(import_module("reasoning_gym.factory").DATASETS, "gcd")
    with pytest.raises(IncompatibleSwarm, match="has no dataset gcd"):
        load(["gcd"])
