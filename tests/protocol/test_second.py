"""The second reader, written from the prose alone, agrees with every vector."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.second.judge import judge

FILE: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "proto" / "vectors" / "rules.json").read_text()
)


@pytest.mark.parametrize("case", FILE["cases"], ids=lambda case: f"{case['rule']}: {case['name']}")
def test_the_second_reader_agrees(case):
    memory: set[bytes] = set()
    for earlier in case["before"]:
        judge(bytes.fromhex(earlier), FILE["now_ms"], memory, bytes.fromhex(FILE["manifest"]))

    rule = judge(bytes.fromhex(case["message"]), FILE["now_ms"], memory, bytes.fromhex(FILE["manifest"]))

    assert rule == case["rule"]


def test_it_shares_no_code_with_the_first():
    for path in (Path(__file__).parent / "second").glob("*.py"):
        assert "from swarmd" not in path.read_text()
        assert "import swarmd" not in path.read_text()
