"""The second reader, written from the prose alone, agrees with every vector."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.second.judge import judge

VECTORS = Path(__file__).parents[2] / "proto" / "vectors"
RULES: dict[str, Any] = json.loads((VECTORS / "rules.json").read_text())
LIMITS: dict[str, Any] = json.loads((VECTORS / "limits.json").read_text())


@pytest.mark.parametrize("case", RULES["cases"], ids=lambda case: f"{case['rule']}: {case['name']}")
def test_the_second_reader_agrees(case):
    memory: set[bytes] = set()
    for earlier in case["before"]:
        judge(bytes.fromhex(earlier), RULES["now_ms"], memory, bytes.fromhex(RULES["manifest"]))

    rule = judge(bytes.fromhex(case["message"]), RULES["now_ms"], memory, bytes.fromhex(RULES["manifest"]))

    assert rule == case["rule"]


@pytest.mark.parametrize("case", LIMITS["cases"], ids=lambda case: f"{case['limit']}: {case['name']}")
def test_the_second_reader_agrees_on_every_limit(case):
    manifest = bytes.fromhex(LIMITS["manifests"][case["manifest"]])
    assert judge(bytes.fromhex(case["message"]), case["now_ms"], set(), manifest) == case["rule"]


def test_it_shares_no_code_with_the_first():
    for path in (Path(__file__).parent / "second").glob("*.py"):
        assert "from swarmd" not in path.read_text()
        assert "import swarmd" not in path.read_text()
