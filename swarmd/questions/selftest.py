"""Known items: the golden digest of every offered dataset with its default parameters, for whoever seals a manifest.

A node compares its generators with its manifest (`golden.py`). The author of a manifest compares with these digests. Without them a
changed reasoning_gym would found a swarm that nobody else can join. The digests lie in `selftest.json`, and
`python -m swarmd.questions.selftest --write` makes them anew from the installed reasoning_gym.
"""

import json
import sys
from collections.abc import Sequence
from importlib import resources

from swarmd.questions.datasets import OFFERED
from swarmd.questions.golden import golden, verify
from swarmd.questions.regenerate import DatasetChoice, QuestionSource

_FILE = "selftest.json"


def verify_defaults(names: Sequence[str]) -> None:
    """Compare these datasets, with their defaults, with the known digests.

    Raises:
        IncompatibleSwarm: a digest differs.
    """
    known: dict[str, str] = json.loads(resources.files(__package__).joinpath(_FILE).read_text())
    verify([QuestionSource(DatasetChoice(name, {}, "exact", known[name])) for name in sorted(set(names))])


def known_text() -> str:
    known = {name: golden(QuestionSource(DatasetChoice(name, {}, "exact"))) for name in sorted(OFFERED)}
    return json.dumps(known, indent=1) + "\n"


if __name__ == "__main__":
    text = known_text()
    if "--write" in sys.argv:
        with resources.as_file(resources.files("swarmd.questions").joinpath(_FILE)) as path:
            path.write_text(text)
    else:
        sys.stdout.write(text)
