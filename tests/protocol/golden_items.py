"""Prints, as JSON, what three configured datasets make of the known seeds: `python -m tests.protocol.golden_items`.

A process of its own: it imports reasoning_gym module by module, past its package, and whoever comes after must find it whole.
"""

import json

from swarmd.questions.golden import SEEDS, golden, json_line
from swarmd.questions.regenerate import DatasetChoice, QuestionSource

# Integers and booleans, floats and letters beyond ASCII, and a question whose answer is null.
CHOICES = (
    ("chain_sum", {"max_terms": 2, "min_terms": 2}, "exact"),
    ("letter_jumble", {"min_words": 1, "max_words": 1}, "exact"),
    ("propositional_logic", {"max_vars": 2, "max_statements": 2, "max_complexity": 1}, "upstream"),
)


def main() -> None:
    """Print the cases of golden.json."""
    cases = []
    for name, params, reward in CHOICES:
        source = QuestionSource(DatasetChoice(name, params, reward))
        lines = [{"seed": seed, "json": json_line(source, seed).decode()} for seed in SEEDS]
        cases.append({"name": name, "params": params, "lines": lines, "golden": golden(source)})
    print(json.dumps(cases))


if __name__ == "__main__":
    main()
