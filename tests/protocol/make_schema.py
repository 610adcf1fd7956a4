"""Writes proto/schema/*.json from the models: `python -m tests.protocol.make_schema` from the repository's root.

The schemas describe the values with bytes as lower-case hexadecimal text, as the vectors show them. msgpack's demands (a float may
be written as an integer, but not the other way) and the swarm's own limits are in WIRE.md. JSON Schema cannot tell a whole
float from an integer: beyond the integers' bounds it refuses such parameters, which msgpack can hold.
"""

import json
from pathlib import Path
from typing import Any

from swarmd.protocol.manifest import Manifest
from swarmd.protocol.types import Header, RolloutBatch

FOLDER = Path(__file__).parents[2] / "proto" / "schema"
MODELS = {"header": Header, "body": RolloutBatch, "manifest": Manifest}


def schema_text(name: str) -> str:
    """A file's text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | MODELS[name].model_json_schema()
    return json.dumps(_plain(schema), indent=1) + "\n"


def _plain(node: Any, *, names: bool = False) -> Any:
    """Without Python's titles and docstrings, and with bytes as hexadecimal text; `names`: the keys are field names."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") == "binary":
        lengths = f"{2 * node.get('minLength', 0)},{2 * node['maxLength']}"
        return {"type": "string", "pattern": f"^[0-9a-f]{{{lengths}}}$"} | (
            {"default": node["default"]} if "default" in node else {}
        )
    if node == {
        "type": "number"
    }:  # a parameter: JSON's number would take the integers that the branch beside it bounds
        return {"type": "number", "not": {"type": "integer"}}
    if "patternProperties" in node:
        node = node | {"additionalProperties": False}
    return {
        key: _plain(value, names=key in ("properties", "$defs") and not names)
        for key, value in node.items()
        if names or key not in ("title", "description")
    }


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        (FOLDER / f"{name}.json").write_text(schema_text(name))


if __name__ == "__main__":
    main()
