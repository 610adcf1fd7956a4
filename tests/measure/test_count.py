"""The count against a tree small enough to count by hand."""

import pytest

from tests.measure.__main__ import rows
from tests.measure.annotations import Annotations, in_signatures, on_names
from tests.measure.count import Spread, figures
from tests.measure.source import ROOT, Source, read_tree

ONE = '''"""A docstring.

Of three lines."""
from typing import Any  # a comment beside code

from swarmd import two


# a comment alone
class Wide:
    """Another docstring."""

    text = """three
    lines,
    all code"""

    def method(self, a: int, b: "dict[str, Any]", *rest: Any, c: list[dict[str, Any]], d, e, **f) -> Any:
        return two
'''
TWO = "def late():\n    from swarmd.one import Wide\n    return Wide\n"
ALONE = "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Many:\n" + "".join(
    f"    field_{number}: int\n" for number in range(13)
)
TREE = {
    "swarmd/one.py": ONE,
    "swarmd/two.py": TWO,
    "swarmd/room/__init__.py": ALONE,
    "swarmd/swarm/hardening/defect.py": "def f(peer: Any) -> None:\n    found: dict[str, Any] = {}\n",
    "tests/test_one.py": "one\nline\nand another\n",
}


def test_code_lines_are_without_blanks_comments_and_docstrings() -> None:
    source = Source("swarmd/one.py", ONE)
    assert (source.num_lines, source.num_code_lines) == (18, 8)


def test_files_functions_and_tests_are_counted() -> None:
    found = figures(TREE)
    assert (found.num_files, found.num_lines, found.num_test_lines) == (4, 18 + 3 + 17 + 2, 3)
    assert found.file_lines == Spread(3, 17, 18)
    assert found.function_lines == Spread(2, 2, 3)


def test_whatever_passes_a_limit_is_named() -> None:
    long_file, long_function = "#\n" * 301, "def f():\n" + "    pass\n" * 70
    found = figures(TREE | {"swarmd/long.py": long_file, "swarmd/f.py": long_function})
    assert found.long_files == ["swarmd/long.py 301"]
    assert found.long_functions == ["swarmd/f.py:f 71"]
    assert found.wide_functions == ["swarmd/one.py:method 7"]
    assert found.wide_dataclasses == ["swarmd/room/__init__.py:Many 13"]


def test_any_is_counted_in_quotes_and_within_other_types_too() -> None:
    tree = Source("swarmd/one.py", ONE).tree
    assert in_signatures(tree) == Annotations(num=5, num_any=4, num_any_dicts=2)
    assert on_names(tree) == Annotations(0, 0, 0)


def test_hardening_is_counted_apart() -> None:
    told = rows(figures(TREE))
    assert told["parameters and results with Any, in all"] == "5 of 7 (71.4%)"
    assert told["parameters and results with Any, outside hardening"] == "4 of 5 (80.0%)"
    assert told["fields and variables with dict[str, Any], outside hardening"] == "0"


def test_a_circle_counts_even_where_a_late_import_hides_it() -> None:
    assert figures(TREE).cycles == [["swarmd.one", "swarmd.two"]]
    assert figures({**TREE, "swarmd/two.py": ""}).cycles == []


@pytest.mark.parametrize(("numbers", "spread"), [([], Spread(0, 0, 0)), ([3, 1, 2, 9], Spread(2, 3, 9))])
def test_a_spread_is_of_the_numbers_themselves(numbers: list[int], spread: Spread) -> None:
    assert Spread.of(numbers) == spread


def test_a_folder_and_a_revision_are_read_alike() -> None:
    assert "swarmd/errors.py" in read_tree("HEAD")
    assert read_tree(str(ROOT)).keys() >= {"swarmd/errors.py", "tests/measure/test_count.py"}
