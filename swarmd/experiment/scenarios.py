"""Which nodes a swarm is made of: all alike, unlike in everything, each with its own tasks, or with one that comes late."""

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice

from swarmd.errors import ConfigError
from swarmd.experiment.arms import unknown
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
        NodeSpec("", model),
        NodeSpec("", "narrow"),
        NodeSpec("", model, speed=SLOW),
        NodeSpec("", "wide"),
        NodeSpec("", model, settings={"experience.completions": "16"}),
        NodeSpec("", "narrow"),
        NodeSpec("", model, settings={"experience.completions": "4"}),
        NodeSpec("", model),
    )
    # Everybody must have room for everybody's answers, whatever they are spelled in.
    room = {"policy.tokens_max": str(max(TOKENS_MAX.values()))}
    return tuple(
        replace(kind, name=f"node-{number}", settings={**room, **kind.settings})
        for number, kind in enumerate(islice(cycle(kinds), num_nodes))
    )


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
        raise ConfigError(unknown("scenario", scenario, SCENARIOS), fix=f"one of {', '.join(SCENARIOS)}")
    if model != "tiny" and scenario in ("mixed", "specialised"):
        raise ConfigError(
            f"the scenario {scenario} is made for the model tiny, not {model}",
            "its other sizes and its tasks are those of the embedded policy",
            "use alike or late",
        )
    return SCENARIOS[scenario](num_nodes, model, rounds)
