"""The figures of one tree's product: everything below `swarmd/`. Tests give their number of lines only."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.measure.annotations import Annotations, in_signatures, on_names
from tests.measure.cycles import import_cycles
from tests.measure.source import Source

# Its annotations with `Any` are py-libp2p's, which has no types of its own to offer.
HARDENING = "swarmd/swarm/hardening/"
FILE_LINES_MAX, FUNCTION_LINES_MAX, PARAMETERS_MAX, FIELDS_MAX = 300, 70, 6, 12

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Figures:
    """What one tree comes to. A name carries its number: `swarmd/policy/service.py 355`."""

    num_files: int
    num_lines: int
    num_code_lines: int
    num_test_lines: int
    file_lines: "Spread"
    function_lines: "Spread"
    signatures: Annotations
    signatures_hardening: Annotations
    names: Annotations
    names_hardening: Annotations
    long_files: list[str] = field(default_factory=list)
    long_functions: list[str] = field(default_factory=list)
    wide_functions: list[str] = field(default_factory=list)
    wide_dataclasses: list[str] = field(default_factory=list)
    cycles: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Spread:
    """Half are at most `median`, nine in ten at most `p90`."""

    median: int
    p90: int
    max: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> "Spread":
        """The spread of some numbers; zeros for none."""
        ordered = sorted(numbers) or [0]
        return cls(ordered[(len(ordered) - 1) // 2], ordered[(len(ordered) - 1) * 9 // 10], ordered[-1])


def figures(texts: dict[str, str]) -> Figures:
    """Count the files of a tree, by path."""
    sources = [Source(path, text) for path, text in sorted(texts.items()) if path.startswith("swarmd/")]
    functions = [
        (source, node) for source in sources for node in ast.walk(source.tree) if isinstance(node, Function)
    ]
    hardening = [source for source in sources if source.path.startswith(HARDENING)]
    return Figures(
        num_files=len(sources),
        num_lines=sum(source.num_lines for source in sources),
        num_code_lines=sum(source.num_code_lines for source in sources),
        num_test_lines=sum(
            len(text.splitlines()) for path, text in texts.items() if path.startswith("tests/")
        ),
        file_lines=Spread.of([source.num_lines for source in sources]),
        function_lines=Spread.of([_num_lines(node) for _, node in functions]),
        signatures=_total([in_signatures(source.tree) for source in sources]),
        signatures_hardening=_total([in_signatures(source.tree) for source in hardening]),
        names=_total([on_names(source.tree) for source in sources]),
        names_hardening=_total([on_names(source.tree) for source in hardening]),
        long_files=_past(FILE_LINES_MAX, [(source.path, source.num_lines) for source in sources]),
        long_functions=_past(
            FUNCTION_LINES_MAX, [(_place(s, node), _num_lines(node)) for s, node in functions]
        ),
        wide_functions=_past(
            PARAMETERS_MAX, [(_place(s, node), _num_parameters(node)) for s, node in functions]
        ),
        wide_dataclasses=_past(FIELDS_MAX, _dataclasses(sources)),
        cycles=import_cycles(sources),
    )


def _past(limit: int, sizes: list[tuple[str, int]]) -> list[str]:
    """Whatever is larger than the limit, the largest first."""
    return [f"{name} {size}" for name, size in sorted(sizes, key=lambda one: -one[1]) if size > limit]


def _total(counts: list[Annotations]) -> Annotations:
    return Annotations(*(sum(column) for column in zip(Annotations(0, 0, 0), *counts, strict=True)))


def _place(source: Source, node: Function | ast.ClassDef) -> str:
    return f"{source.path}:{node.name}"


def _num_lines(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _num_parameters(node: Function) -> int:
    """Parameters of every kind, without `self` and `cls`."""
    a = node.args
    names = [
        one.arg for one in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg] if one is not None
    ]
    return len([name for name in names if name not in ("self", "cls")])


def _dataclasses(sources: list[Source]) -> list[tuple[str, int]]:
    """Dataclasses and named tuples with their number of fields."""
    return [
        (_place(source, node), sum(isinstance(one, ast.AnnAssign) for one in node.body))
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and _holds_fields(node)
    ]


def _holds_fields(node: ast.ClassDef) -> bool:
    heads = [*node.decorator_list, *node.bases]
    names = [head.func if isinstance(head, ast.Call) else head for head in heads]
    return any(isinstance(name, ast.Name) and name.id in ("dataclass", "NamedTuple") for name in names)
