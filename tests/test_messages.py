"""What a message tells an operator to change can be changed: every `section.key` in the code's texts is a setting."""

import ast
import re
from pathlib import Path

import pytest

from swarmd.config import Config, known_keys

PACKAGE = Path(__file__).parent.parent / "swarmd"
KEY = re.compile(rf"(?<![\w./-])({'|'.join(Config.model_fields)})\.([a-z_0-9]+)(?![\w:(])")
# Names of files look like settings, and so do libp2p's fields, which only `hardening/` names.
NOT_KEYS = {"py", "md", "json", "toml", "msgpack", "jsonl", "sock"}
FOREIGN = PACKAGE / "swarm" / "hardening"


def texts(tree: ast.Module) -> list[tuple[int, str]]:
    """Every text but docstrings, the fixed parts of f-strings among them."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def unknown_keys(source: str) -> list[str]:
    known = set(known_keys())
    return [
        f"line {line}: {section}.{key}"
        for line, text in texts(ast.parse(source))
        for section, key in KEY.findall(text)
        if key not in NOT_KEYS and f"{section}.{key}" not in known
    ]


@pytest.mark.parametrize(
    "room", sorted(path.name for path in PACKAGE.iterdir() if path.suffix in ("", ".py"))
)
def test_messages_name_only_settings_that_exist(room: str) -> None:
    place = PACKAGE / room
    paths = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    found = [
        f"{path.relative_to(PACKAGE)}, {key}"
        for path in paths
        if not path.is_relative_to(FOREIGN)
        for key in unknown_keys(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('raise E("choose another update.optimizer")', ["line 1: update.optimizer"]),
        ('raise E(f"update.optimizer {x}, update.epochs")', ["line 1: update.optimizer"]),
        ('"""update.optimizer"""\nx = "swarmd.policy.update:build, ../trust.md, update.epochs"', []),
    ],
)
def test_a_setting_that_does_not_exist_is_found(source: str, found: list[str]) -> None:
    assert unknown_keys(source) == found
