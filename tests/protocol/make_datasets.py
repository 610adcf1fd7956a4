"""Writes proto/DATASETS.md from `questions.datasets`: `python -m tests.protocol.make_datasets` from the repository's root."""

from pathlib import Path

from swarmd.questions.datasets import OFFERED, SCORER_VERSION
from swarmd.questions.parameters import Bound, Choice, Flag, Real, Whole

FILE = Path(__file__).parents[2] / "proto" / "DATASETS.md"
_HEAD = f"""# Datasets of `scorer_version` {SCORER_VERSION}

Written by `python -m tests.protocol.make_datasets`; a test fails when it differs from the code. A
node does not start with a manifest that names another dataset, sets a parameter that is not here or
outside its bounds (all inclusive; "number" is an integer or a float, a bool is neither), sets
`min_x` above `max_x` (what it leaves out has ReasoningGYM's default), or has `reward = "upstream"`
where only `exact` may be. A *list* names at least one of the texts, none twice. A bound keeps
generators and scorers cheap. A dataset that is missing was not reviewed yet, or its rules evaluate
text, take unbounded time, differ between machines, or pay a constant answer well.

| dataset | only `exact` | parameters that may be set |
|---|---|---|
"""
_TAIL = """
## `propositional_logic` with `reward = "exact"`
Upstream pays each formula that follows from the premises. Here a question has facts, and an answer
has to be made of them.

1. A *literal* is a variable of the question or its negation. A *clause* is one literal or several
   of different variables, joined by `∨`. A clause is *strongest* when it follows from all premises
   together and does not without any one of its literals.
2. A *fact* is a strongest clause that follows from no single premise. Where the premises contradict
   each other there is none.
3. The seed of an address is that of WIRE.md, S. The question is upstream's of the first of the
   seeds S, S + 1, ... S + 15 that has a fact. Without one among these there is no question: nobody
   asks it, and a batch with it is dropped like one with a held-out question. A seed above 2^31 - 1
   is used as it is.
4. The right answer, for the golden digest and the limit on length, is the fact with the fewest
   literals; of these the first in the order of its variables, where at each variable a plain
   literal comes before a negated one, and that before none. It is written `P ∨ ¬Q`: in the order of
   the variables, with a blank on both sides of `∨`.
5. An answer is a formula as in SCORES.md. It earns 1 when no variable occurs twice in it and it is
   equivalent to one fact, or to several joined by `∧`; else 0.

From `P`, `P → Q`, `Q → R` the facts are `Q` and `R`. `Q`, `¬¬R` and `Q ∧ R` earn 1. `P` and `P → Q`
are premises, `P ∧ Q` has one in it, `Q ∨ R` is weaker than a fact, and `P ∧ (P → Q)` has `P` twice:
these earn 0.
"""


def text() -> str:
    """The file's text."""
    rows = "".join(
        f"| `{name}` | {'yes' if offer.exact_only else ''} | {_all(dict(offer.bounds))} |\n"
        for name, offer in sorted(OFFERED.items())
    )
    return _HEAD + rows + _TAIL


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
