"""What a manifest may ask for: offered datasets, known parameters, bounded values."""

from typing import Any

import pytest

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.questions.datasets import OFFERED, check_dataset, family_of
from swarmd.questions.gym_datasets import REFUSED
from swarmd.questions.parameters import check_order


def test_nothing_is_both_offered_and_refused() -> None:
    assert not set(OFFERED) & set(REFUSED)


@pytest.mark.parametrize("name", ["coin_flip", "rearc", "string_insertion", "composite", "os", "", "../gcd"])
def test_a_dataset_that_is_not_offered_names_those_that_are(name: str) -> None:
    with pytest.raises(IncompatibleSwarm, match="chain_sum, count_bits"):
        family_of(name)


def test_a_refused_dataset_says_why() -> None:
    with pytest.raises(IncompatibleSwarm, match="constant answer"):
        family_of("countdown")


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("spell_backward", {"data_file": "/etc/passwd"}),
        ("gcd", {"seed": 1}),
        ("gcd", {"size": 10**9}),
        ("gcd", {"min_numbers": True}),
        ("gcd", {"min_numbers": 2.0}),
        ("gcd", {"max_value": 10**30}),
        ("decimal_arithmetic", {"precision": 10**9}),
        ("bf", {"difficulty": 2}),
        ("count_primes", {"max_n": 10**9}),
        ("binary_matrix", {"p_zero": float("nan")}),
        ("chain_sum", {"allow_negation": 1}),
        ("basic_arithmetic", {"operators": []}),
        ("basic_arithmetic", {"operators": ["**"]}),
        ("basic_arithmetic", {"operators": ["+", "+"]}),
        ("basic_arithmetic", {"operators": "+"}),
        ("basic_arithmetic", {"whitespace": ["single"]}),
        ("calendar_arithmetic", {"tasks": [["is_leap_year"]]}),
    ],
)
def test_a_parameter_out_of_bounds_is_the_manifests_fault(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        check_dataset(name, params, "exact")


def test_an_unknown_parameter_names_the_known() -> None:
    with pytest.raises(ConfigError, match="max_numbers, max_value, min_numbers, min_value"):
        check_dataset("gcd", {"colour": 1}, "exact")


def test_partial_credit_is_refused_where_it_is_most_of_the_reward() -> None:
    with pytest.raises(ConfigError, match="exact"):
        check_dataset("prime_factorization", {}, "upstream")


def test_parameters_within_bounds_pass_unchanged() -> None:
    params = {"min_terms": 2, "max_terms": 3, "operators": ["+", "-"], "allow_parentheses": False}
    assert check_dataset("basic_arithmetic", params, "upstream") == params


def test_a_minimum_above_a_default_maximum_is_named() -> None:
    with pytest.raises(ConfigError, match="min_terms is 9, above max_terms = 6"):
        check_order("chain_sum", {"min_terms": 9, "max_terms": 6})
