"""What is paid for nothing: the figures that led to the rules, and those of the shipped swarms on small samples."""

import pytest
from click.testing import CliRunner

from swarmd.cli.main import swarmd
from swarmd.errors import ConfigError
from swarmd.protocol.manifest import DatasetSpec, Manifest, load_manifest
from swarmd.questions.cheap import Row, cheap_rows
from swarmd.questions.pieces import COPIES, PROGRAMS

_NUM = 60
# A mean of 60 rewards of 0 or 1 around 0.13, the highest of the page, is below this in all but one sample of 500.
_BOUND = 0.27


def row_of(name: str, reward: str = "exact", **params: object) -> Row:
    spec = DatasetSpec.model_validate({"name": name, "params": params, "reward": reward})
    manifest = Manifest(
        name="x", datasets=(spec,), prompt_template="{question}", answer_format="tags", scorer_version=2
    )
    (row,) = cheap_rows(manifest, 300)
    return row


@pytest.mark.parametrize("name", ["tiny", "reasoning"])
def test_no_shipped_swarm_pays_for_nothing(name: str) -> None:
    for row in cheap_rows(load_manifest(name), _NUM):
        assert row.highest < _BOUND, row


def test_upstreams_propositional_logic_is_found_out() -> None:
    row = row_of("propositional_logic", "upstream")
    assert row.constant.reward > 0.7
    assert row.copy.reward > 0.5


@pytest.mark.parametrize(
    ("name", "params", "answer"),
    [
        ("count_bits", {"min_n": 100, "max_n": 999}, "`5`"),
        ("gcd", {"min_value": 1, "max_value": 60}, "`2`"),
        ("products", {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1}, "`0`"),
    ],
)
def test_a_constant_is_found(name: str, params: dict[str, int], answer: str) -> None:
    row = row_of(name, **params)
    assert row.constant.name == answer
    assert row.constant.reward > 0.15


def test_a_copy_is_found() -> None:
    row = row_of("lcm", min_value=1, max_value=20)
    assert row.copy.reward > 0.15
    assert row.copy.name in ("number 1", "number 2", "number 1 from the end", "number 2 from the end")


def test_a_constant_for_each_kind_of_question_is_found() -> None:
    assert row_of("calendar_arithmetic", "upstream").by_kind.reward > 0.15


@pytest.mark.parametrize(
    ("name", "question", "answer"),
    [
        ("number 2", "Add -3 and 4.50 to 3.", "4.50"),
        ("number 1 from the end", "Add -3 and 4.50 to 3.", "3"),
        ("word 2", "Reverse (these) words", "these"),
        ("line 2", "Given:\n1. P → Q\n.2. R", "P → Q"),
        ("framed piece 1", "Sort 'a, b' now", "a, b"),
        ("letter 1 from the end", "Given ¬(P ∨ Q), R?", "R"),
        ("behind the last colon", "Sort: x: 1 2", "1 2"),
        ("number 3", "1 and 2", None),
    ],
)
def test_pieces(name: str, question: str, answer: str | None) -> None:
    assert COPIES[name](question) == answer


@pytest.mark.parametrize(("question", "answer"), [("7 3 3 7 1", "7"), ("no number", None)])
def test_the_most_frequent_number(question: str, answer: str | None) -> None:
    assert PROGRAMS["most frequent number"](question) == answer


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("largest number", "10"),
        ("second largest number", "9.5"),
        ("smallest number", "-20"),
        ("second smallest number", "2"),
    ],
)
def test_a_number_by_its_size(name: str, answer: str) -> None:
    assert PROGRAMS[name]("9.5 and 2, -20, 10") == answer
    assert PROGRAMS[name]("no number") is None


def test_the_largest_number_is_found_where_it_is_often_the_answer() -> None:
    row = row_of("lcm", min_numbers=2, max_numbers=3, min_value=2, max_value=20)
    assert row.program.name == "largest number"
    assert row.program.reward > 0.15


def test_the_same_manifest_gives_the_same_row() -> None:
    assert row_of("lcm") == row_of("lcm")


@pytest.mark.parametrize(("bound", "code"), [("1", 0), ("0", 1)])
def test_the_command_says_what_is_above_its_bound(bound: str, code: int) -> None:
    said = CliRunner().invoke(
        swarmd, ["manifest", "cheap", "tiny", "--questions", "30", "--dataset", "products", "--bound", bound]
    )
    assert said.exit_code == code
    assert ("above 0: products" in said.output) == bool(code)
    assert "lcm" not in said.output


def test_the_command_names_a_dataset_that_is_not_there() -> None:
    said = CliRunner().invoke(swarmd, ["manifest", "cheap", "tiny", "--dataset", "gcd"])
    assert said.exit_code == 2
    assert "tiny has no dataset gcd" in said.output


def test_a_manifest_that_is_not_there_is_named() -> None:
    assert isinstance(CliRunner().invoke(swarmd, ["manifest", "cheap", "none"]).exception, ConfigError)
