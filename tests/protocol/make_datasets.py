"""Writes proto/DATASETS.md from the guard table: `python -m tests.protocol.make_datasets` from the repository's root."""

from pathlib import Path

from swarmd.questions.guards import GUARDS, SCORER_VERSION
from swarmd.questions.parameters import Bound, Choice, Flag, Real, Whole

FILE = Path(__file__).parents[2] / "proto" / "DATASETS.md"
_HEAD = f"""# Datasets of `scorer_version` {SCORER_VERSION}

Written by `python -m tests.protocol.make_datasets`; a test fails when it differs from the code. A node does not start with a
manifest that names another dataset, sets a parameter that is not here or outside its bounds (all inclusive; "number" is an
integer or a float, a bool is neither), sets `min_x` above `max_x` (what it leaves out has ReasoningGYM's default), or has
`reward = "upstream"` where only `exact` may be. A *list* names at least one of the texts, none twice. A bound keeps generators
and scorers cheap; a dataset that is missing has rules that evaluate text, take unbounded time, differ between machines, or pay
a constant answer well.

| dataset | only `exact` | parameters that may be set |
|---|---|---|
"""


def text() -> str:
    """The file's text."""
    return _HEAD + "".join(
        f"| `{name}` | {'yes' if guard.exact_only else ''} | {_all(dict(guard.bounds))} |\n"
        for name, guard in sorted(GUARDS.items())
    )


def _all(bounds: dict[str, Bound]) -> str:
    return "; ".join(f"`{name}` {_shown(bound)}" for name, bound in bounds.items()) or "none"


def _shown(bound: Bound) -> str:
    if isinstance(bound, Whole):
        return f"integer {bound.low} to {bound.high}"
    if isinstance(bound, Real):
        return f"number {bound.low!r} to {bound.high!r}"
    if isinstance(bound, Flag):
        return "bool"
    kind = "one of" if isinstance(bound, Choice) else "list of"
    return f"{kind} " + ", ".join(f"`{option}`" for option in bound.options)


def main() -> None:
    """Write the file."""
    FILE.write_text(text())


if __name__ == "__main__":
    main()
