"""Events: what a child tells without being asked. The union is closed, and whoever listens matches all of it."""

from typing import NamedTuple, get_args

from swarmd.processes.values import typed


class Accepted(NamedTuple):
    """A message of another node keeps all rules. `author_connected` says whether its author is a peer of ours.

    The one event that may be dropped: a slow daemon misses the oldest, and counts them.
    """

    data: bytes
    forwarder: str
    author_connected: bool


class HostDied(NamedTuple):
    """All libp2p objects are made anew; `kinds` names the exceptions that ended them."""

    kinds: str


class BootstrapChanged(NamedTuple):
    """A bootstrap address was dialled with another outcome than before (`swarm.dial.Dialled`)."""

    address: str
    state: str


class BookLost(NamedTuple):
    """The addresses that worked lately cannot be read: the node has its bootstraps, and whoever finds it."""

    why: str


class PlanChanged(NamedTuple):
    """The update goes on under another memory plan."""

    round: int
    before: str
    after: str
    why: str


class OptimizerRestarted(NamedTuple):
    """The weights of a checkpoint were taken over, the optimizer's moments were not."""

    why: str


class CheckpointSkipped(NamedTuple):
    """A checkpoint was not fit to go on from, and an older one was looked for."""

    why: str


class SlowPath(NamedTuple):
    """The update cannot share prompts, and forwards `cost` times as many tokens. Told once for each reason."""

    cost: float
    why: str


NetworkEvent = Accepted | HostDied | BootstrapChanged | BookLost
PolicyEvent = PlanChanged | OptimizerRestarted | CheckpointSkipped | SlowPath
Event = NetworkEvent | PolicyEvent
_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def event_of(name: str, fields: object) -> Event:
    """The event that a frame carried. Raises KeyError for one that no child has."""
    return typed(_KINDS[name], fields)
