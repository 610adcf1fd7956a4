"""What a real node wrote of its rounds and said of lost ones; files alone, so that a stopped node can be asked."""

import json
import re
from itertools import pairwise
from typing import Any

from swarmd.experiment.swarms.local_swarm import LocalNode

LOST = re.compile(
    r"! lost +(?:round (?P<one>\d+)|(?P<num>\d+) rounds after round \d+): .* of round (?P<newest>\d+)"
)


def records(node: LocalNode) -> list[dict[str, Any]]:
    """The rounds of its history, in the order in which they were recorded. A line that is half written is not there yet."""
    if not node.data_dir.rounds.exists():
        return []
    return [
        json.loads(line) for line in node.data_dir.rounds.read_text().splitlines(True) if line[-1:] == "\n"
    ]


def numbers(node: LocalNode) -> list[int]:
    """The numbers of these rounds."""
    return [record["round"] for record in records(node)]


def told(node: LocalNode) -> list[tuple[int, int]]:
    """Of each loss that it told: how many rounds, and the round that it went back to."""
    return [
        (int(found["num"] or 1), int(found["newest"]))
        for found in map(LOST.search, node.output().splitlines())
        if found
    ]


def went_back(node: LocalNode) -> list[tuple[int, int]]:
    """The same by its history: rounds that are there twice, and the round before them."""
    return [(last - then + 1, then - 1) for last, then in pairwise(numbers(node)) if then <= last]


def newest_checkpoint(node: LocalNode) -> int:
    """The round of the newest checkpoint by its name, 0 where there is none."""
    return max(
        (int(path.name.partition("-")[2]) for path in node.data_dir.checkpoints.glob("round-*")), default=0
    )
