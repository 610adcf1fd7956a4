"""Known items: a digest for every offered dataset, so that a node whose questions differ says so before it joins.

The records lie in `selftest.json`; `python -m swarmd.questions.selftest --write` makes them anew from the installed reasoning_gym:
every dataset with its default parameters, and every dataset of the embedded manifests with the manifest's.
"""

import hashlib
import json
import platform
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from swarmd.errors import IncompatibleSwarm
from swarmd.questions.guards import GUARDS
from swarmd.questions.regenerate import DatasetChoice, QuestionSource

_RECORDS = "selftest.json"
# Both ends of the range and some between: 0.2 to 2 ms a question.
_SEEDS = (0, 1, 7_919, 65_537, 104_729, 1_073_741_827, 2**31 - 1)


def digest(source: QuestionSource) -> str:
    """SHA-256 over question, answer and metadata of the known seeds, as canonical JSON."""
    sha = hashlib.sha256()
    for seed in _SEEDS:
        item = source.item(seed)
        known = [item["question"], item["answer"], item["metadata"]]
        sha.update(json.dumps(known, sort_keys=True, default=str).encode())
    return sha.hexdigest()


def verify(sources: Sequence[QuestionSource]) -> int:
    """Compare each dataset with its record; one with parameters nobody recorded is compared with its defaults.

    Returns how many were compared.

    Raises:
        IncompatibleSwarm: a digest differs.
    """
    records = _read_records()
    for source in sources:
        known = records.get(_key(source.name, source.params))
        if known is None:
            known = records[_key(source.name, {})]
            compared = QuestionSource(DatasetChoice(source.name, {}, "exact"))
        else:
            compared = source
        if (found := digest(compared)) != known:
            raise IncompatibleSwarm(
                f"self-test: dataset {source.name} generates other questions here than in the swarm",
                f"digest {found[:16]}, recorded {known[:16]}; Python {platform.python_version()}",
                "install reasoning-gym 0.1.25 unchanged; scores of this node would be wrong for everyone else",
            )
    return len(sources)


def write_records(manifests: Sequence[Mapping[str, Any]]) -> str:
    """The text of `selftest.json` for all offered datasets and those of the given manifests (parsed TOML)."""
    choices: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in GUARDS]
    choices += [
        (dataset["name"], dict(dataset.get("params", {})))
        for manifest in manifests
        for dataset in manifest["datasets"]
    ]
    records = {
        _key(name, params): digest(QuestionSource(DatasetChoice(name, params, "exact")))
        for name, params in choices
    }
    return json.dumps(dict(sorted(records.items())), indent=1) + "\n"


def _key(name: str, params: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(params, sort_keys=True)}"


def _read_records() -> dict[str, str]:
    records: dict[str, str] = json.loads(resources.files(__package__).joinpath(_RECORDS).read_text())
    return records


if __name__ == "__main__":
    folder = resources.files("swarmd.protocol").joinpath("manifests")
    embedded = [tomllib.loads(file.read_text()) for file in folder.iterdir() if file.name.endswith(".toml")]
    text = write_records(embedded)
    if "--write" in sys.argv:
        with resources.as_file(resources.files("swarmd.questions").joinpath(_RECORDS)) as path:
            path.write_text(text)
    else:
        sys.stdout.write(text)
