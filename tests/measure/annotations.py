"""How much of a file is annotated, and how much of that says nothing: `Any`, and dictionaries that hold anything."""

import ast
from typing import NamedTuple

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DICTIONARIES = {"dict", "Mapping", "MutableMapping"}


class Annotations(NamedTuple):
    """Numbers of annotations; one counts once, however often it says `Any`."""

    num: int
    num_any: int
    num_any_dicts: int

    def __sub__(self, part: "Annotations") -> "Annotations":
        return Annotations(*(mine - its for mine, its in zip(self, part, strict=True)))


def in_signatures(tree: ast.AST) -> Annotations:
    """Parameters and results."""
    nodes = list(ast.walk(tree))
    return _count(
        [node.annotation for node in nodes if isinstance(node, ast.arg) and node.annotation is not None]
        + [node.returns for node in nodes if isinstance(node, _FUNCTIONS) and node.returns is not None]
    )


def on_names(tree: ast.AST) -> Annotations:
    """Fields of classes and variables."""
    return _count([node.annotation for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)])


def _count(annotations: list[ast.expr]) -> Annotations:
    found = [_parsed(annotation) for annotation in annotations]
    return Annotations(
        len(found),
        sum(any(_name(node) == "Any" for node in ast.walk(one)) for one in found),
        sum(any(_is_any_dict(node) for node in ast.walk(one)) for one in found),
    )


def _parsed(annotation: ast.expr) -> ast.expr:
    """An annotation in quotes is read as code."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_any_dict(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Subscript) and _name(node.value) in _DICTIONARIES):
        return False
    return isinstance(node.slice, ast.Tuple) and [_name(one) for one in node.slice.elts] == ["str", "Any"]
