"""Print the figures of trees side by side. `python -m tests.measure abd3f53 .` compares a git revision with the folder."""

import sys

from tests.measure.annotations import Annotations
from tests.measure.count import (
    FIELDS_MAX,
    FILE_LINES_MAX,
    FUNCTION_LINES_MAX,
    PARAMETERS_MAX,
    Figures,
    Spread,
    figures,
)
from tests.measure.source import read_tree


def rows(found: Figures) -> dict[str, str]:
    """What the table says of one tree, by the name of the row."""
    own, own_names = found.signatures - found.signatures_hardening, found.names - found.names_hardening
    return {
        "product files": str(found.num_files),
        "product lines": str(found.num_lines),
        "product code lines (no blanks, comments, docstrings)": str(found.num_code_lines),
        "test lines": str(found.num_test_lines),
        "file lines: median / p90 / max": _spread(found.file_lines),
        "function lines: median / p90 / max": _spread(found.function_lines),
        f"files past {FILE_LINES_MAX} lines": str(len(found.long_files)),
        f"functions past {FUNCTION_LINES_MAX} lines": str(len(found.long_functions)),
        f"functions with more than {PARAMETERS_MAX} parameters": str(len(found.wide_functions)),
        f"dataclasses with more than {FIELDS_MAX} fields": str(len(found.wide_dataclasses)),
        "parameters and results with Any, in all": _share(found.signatures),
        "parameters and results with Any, outside hardening": _share(own),
        "parameters and results with dict[str, Any], in all": str(found.signatures.num_any_dicts),
        "parameters and results with dict[str, Any], outside hardening": str(own.num_any_dicts),
        "fields and variables with Any, outside hardening": _share(own_names),
        "fields and variables with dict[str, Any], outside hardening": str(own_names.num_any_dicts),
        "import cycles, late imports too": str(len(found.cycles)),
    }


def names(found: Figures) -> dict[str, list[str]]:
    """Whatever passes a limit, by the name of the row that counts it."""
    return {
        f"files past {FILE_LINES_MAX} lines": found.long_files,
        f"functions past {FUNCTION_LINES_MAX} lines": found.long_functions,
        f"functions with more than {PARAMETERS_MAX} parameters": found.wide_functions,
        f"dataclasses with more than {FIELDS_MAX} fields": found.wide_dataclasses,
        "import cycles": [" <-> ".join(cycle) for cycle in found.cycles],
    }


def _spread(spread: Spread) -> str:
    return f"{spread.median} / {spread.p90} / {spread.max}"


def _share(counted: Annotations) -> str:
    return f"{counted.num_any} of {counted.num} ({counted.num_any / max(1, counted.num):.1%})"


def main(trees: list[str]) -> None:
    """Print one column for each tree, and the names behind the last tree's numbers."""
    found = [figures(read_tree(tree)) for tree in trees]
    columns = [rows(one) for one in found]
    width = max(len(name) for name in columns[0])
    print(f"{'':{width}}", *(f"{tree:>24}" for tree in trees))
    for name in columns[0]:
        print(f"{name:{width}}", *(f"{column[name]:>24}" for column in columns))
    for title, lines in names(found[-1]).items():
        print(f"\n{title}{':' if lines else ': none'}", *(f"  {line}" for line in lines), sep="\n", end="")
    print()


if __name__ == "__main__":
    main(sys.argv[1:] or ["."])
