"""Known items: the golden digest of every offered dataset with its default parameters, for whoever seals a manifest.

A node compares its generators with its manifest (`golden.py`). The author of a manifest compares with these records. Without them a
changed reasoning_gym would found a swarm that nobody else can join. The records lie in `selftest.json`, and
`python -m swarmd.questions.selftest --write` makes them anew from the installed reasoning_gym.
"""

import json
import sys
from collections.abc import Sequence
from importlib import resources

from swarmd.questions.golden import golden, verify
from swarmd.questions.guards import GUARDS
from swarmd.questions.regenerate import DatasetChoice, QuestionSource

_RECORDS = "selftest.json"


def verify_defaults(names: Sequence[str]) -> None:
    """Compare these datasets, with their defaults, with the records.

    Raises:
        IncompatibleSwarm: a digest differs.
    """
    records: dict[str, str] = json.loads(resources.files(__package__).joinpath(_RECORDS).read_text())
    verify([QuestionSource(DatasetChoice(name, {}, "exact", records[name])) for name in sorted(set(names))])


def records_text() -> str:
    """The text of `selftest.json`."""
    records = {name: golden(QuestionSource(DatasetChoice(name, {}, "exact"))) for name in sorted(GUARDS)}
    return json.dumps(records, indent=1) + "\n"


if __name__ == "__main__":
    text = records_text()
    if "--write" in sys.argv:
        with resources.as_file(resources.files("swarmd.questions").joinpath(_RECORDS)) as path:
            path.write_text(text)
    else:
        sys.stdout.write(text)
