"""The golden digest of a configured dataset: its questions, answers and metadata for 32 known seeds, as `proto/WIRE.md` defines it.

A manifest names the digest of each of its datasets. A node whose generator gives another digest would score everybody's answers
wrong, so it refuses to join. `swarmd manifest seal` writes the digests into a manifest.
"""

import hashlib
import json
import platform
from collections.abc import Sequence

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.questions.regenerate import QuestionSource

# Seeds: both ends of the range, and 29 spread over it by Knuth's multiplier. They take 1 to 5 ms a dataset (simple_equations 90).
# Measured on 100 configurations of a dataset with seven kinds of questions (calendar_arithmetic): these seeds miss a kind in 5
# configurations, half as many seeds in 59, twice as many in none.
SEEDS = (0, 1, 2**31 - 1, *(k * 2_654_435_761 % 2**31 for k in range(1, 30)))
_DOMAIN = b"swarmd/1/golden\x00"


def golden(source: QuestionSource) -> str:
    """The digest, 64 lower-case hexadecimal digits.

    Raises:
        ConfigError: none of the known seeds has a question: a node would look for one for ever.
    """
    lines = [json_line(source, seed) for seed in SEEDS]
    if set(lines) == {b"null"}:
        raise ConfigError(
            f"dataset {source.name}: its parameters leave no question to ask",
            f"none of {len(SEEDS)} seeds has a question with an answer",
            "set wider parameters: more variables, or fewer statements",
        )
    return hashlib.sha256(_DOMAIN + b"".join(line + b"\n" for line in lines)).hexdigest()


def verify(sources: Sequence[QuestionSource]) -> list[str]:
    """The digests of all sources, each compared with its golden one where it has one.

    Raises:
        IncompatibleSwarm: a digest differs.
    """
    found = [golden(source) for source in sources]
    for number, (source, digest) in enumerate(zip(sources, found, strict=True)):
        if source.golden and digest != source.golden:
            family = source.family
            raise IncompatibleSwarm(
                f"self-test: dataset {number}, {source.name}, has other questions or answers here than in the swarm",
                f"golden digest {source.golden[:16]} in the manifest, {digest[:16]} here;"
                f" {family.package} {family.installed}, Python {platform.python_version()}",
                f"install {family.package} {family.release} unchanged; if the manifest is your own, `swarmd manifest seal` it anew",
            )
    return found


def json_line(source: QuestionSource, seed: int) -> bytes:
    """The item of one seed as canonical JSON: ASCII, keys sorted, Python's separators and shortest floats; null where it fails."""
    try:
        item = source.item(seed)
    except Exception:  # noqa: BLE001 - as the zygote has it: a generator may fail on a seed, and then fails everywhere
        return b"null"
    known = [item["question"], item["answer"], item["metadata"]]
    return json.dumps(known, sort_keys=True, allow_nan=False).encode()
