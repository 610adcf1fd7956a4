"""Circles of imports. Imports inside functions count: they hide a circle, they do not break it."""

import ast

from tests.measure.source import Source


def import_cycles(sources: list[Source]) -> list[list[str]]:
    """Each largest set of modules that all reach one another, by name."""
    return circles({source.module: imports(source) for source in sources})


def circles(targets: dict[str, set[str]]) -> list[list[str]]:
    """Each largest set of names that all reach one another over `targets`."""
    reached = {module: _reach(module, targets) for module in targets}
    cycles = {
        tuple(sorted(other for other in targets if other in reached[module] and module in reached[other]))
        for module in targets
        if module in reached[module]
    }
    return [list(cycle) for cycle in sorted(cycles)]


def imports(source: Source) -> set[str]:
    """Every name that the file imports, with and without its last part: either may be a module."""
    found = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _reach(start: str, targets: dict[str, set[str]]) -> set[str]:
    reached, waiting = set[str](), [start]
    while waiting:
        new = targets[waiting.pop()] & targets.keys() - reached
        reached |= new
        waiting += new
    return reached
