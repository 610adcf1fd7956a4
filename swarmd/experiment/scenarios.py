"""Which nodes a swarm is made of: all alike, unlike in everything, each with its own tasks, or with one that comes late."""

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice

from swarmd.errors import ConfigError
from swarmd.experiment.cell import NodeSpec
from swarmd.experiment.swarms.models import TOKENS_MAX
from swarmd.protocol.manifest import load_manifest

# The node that is ten times slower is the third of each eight: of the embedded model, so that its model is not what sets it apart.
SLOW = 0.1


def alike(num_nodes: int, model: str, rounds: int) -> tuple[NodeSpec, ...]:
    """The paper's swarm: equal nodes."""
    return tuple(NodeSpec(f"node-{number}", model) for number in range(num_nodes))


def mixed(num_nodes: int, model: str, rounds: int) -> tuple[NodeSpec, ...]:
    """Three sizes, two tokenizers, three numbers of completions, and a node ten times slower, in every eight nodes."""
    kinds = (
        {"model": model},
        {"model": "narrow"},
        {"model": model, "speed": SLOW},
        {"model": "wide"},
        {"model": model, "settings": {"experience.completions": 16}},
        {"model": "narrow"},
        {"model": model, "settings": {"experience.completions": 4}},
        {"model": model},
    )
    nodes = []
    for number, kind in enumerate(islice(cycle(kinds), num_nodes)):
        spec = NodeSpec(f"node-{number}", **kind)  # type: ignore[arg-type]
        # Everybody must have room for everybody's answers, whatever they are spelled in.
        settings = {"policy.tokens_max": max(TOKENS_MAX.values()), **spec.settings}
        nodes.append(NodeSpec(spec.name, spec.model, spec.speed, settings))
    return tuple(nodes)


def specialised(num_nodes: int, model: str, rounds: int) -> tuple[NodeSpec, ...]:
    """Each node asks two of the manifest's tasks, its neighbour one of them and the next; all are evaluated on all."""
    names = [spec.name for spec in load_manifest("tiny").datasets]
    return tuple(
        NodeSpec(
            f"node-{number}", model, datasets=(names[number % len(names)], names[(number + 1) % len(names)])
        )
        for number in range(num_nodes)
    )


def late(num_nodes: int, model: str, rounds: int) -> tuple[NodeSpec, ...]:
    """The last node starts when the others have done half of their rounds. It has twice as many: alone it takes that long."""
    *first, last = alike(num_nodes, model, rounds)
    return (*first, replace(last, joins_at_round=rounds // 2, rounds_after=rounds))


SCENARIOS: dict[str, Callable[[int, str, int], tuple[NodeSpec, ...]]] = {
    "alike": alike,
    "mixed": mixed,
    "specialised": specialised,
    "late": late,
}


def nodes_of(scenario: str, num_nodes: int, model: str, rounds: int) -> tuple[NodeSpec, ...]:
    """The nodes of a scenario.

    Raises:
        ConfigError: unknown scenario, or one that this model cannot be used in.
    """
    if scenario not in SCENARIOS:
        raise ConfigError(f"no scenario {scenario!r}", fix=f"there are {', '.join(SCENARIOS)}")
    if model != "tiny" and scenario in ("mixed", "specialised"):
        raise ConfigError(
            f"the scenario {scenario} is made for the model tiny, not {model}",
            "its other sizes and its tasks are those of the embedded policy",
            "use alike or late",
        )
    return SCENARIOS[scenario](num_nodes, model, rounds)
