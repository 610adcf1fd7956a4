"""Events: each kind is heard, and what changes how the node learns or whom it reaches is said."""

from collections.abc import Callable
from typing import get_args

import pytest

from swarmd.clients.events import (
    Accepted,
    BookLost,
    BootstrapChanged,
    CheckpointSkipped,
    Event,
    HostDied,
    OptimizerRestarted,
    PlanChanged,
    SlowPath,
    event_of,
)
from swarmd.node.events import heard
from swarmd.node.memory_plan import MemoryPlan
from swarmd.processes.frames import FrameReader, Told, encode_frame
from tests.loops.parts import Loops

ACCEPTED = Accepted(b"data", "peer", author_connected=True)
SAID = {
    OptimizerRestarted(
        "Adam's moments start at zero"
    ): "! optimizer  began anew: Adam's moments start at zero",
    CheckpointSkipped("round-2: damaged"): "! checkpoint round-2: damaged",
    BootstrapChanged("/ip4/1.2.3.4/tcp/1", "wrong_peer_id"): "! bootstrap  /ip4/1.2.3.4/tcp/1: wrong peer id",
    BootstrapChanged("/ip4/1.2.3.4/tcp/1", "connected"): "✓ bootstrap  /ip4/1.2.3.4/tcp/1: connected",
    BookLost(
        "peers.json is bad"
    ): "! peers      peers.json is bad: known addresses are lost, bootstraps are not",
    HostDied("MuxedConnError"): "! network    failed inside libp2p (MuxedConnError) and starts anew",
    SlowPath(2.34, "softcap"): "! update     slow, 2.3 times the tokens go through the model: softcap",
    PlanChanged(3, "a", "b", "no room"): "! memory     plan a -> b in round 3: no room",
}


@pytest.fixture
def hear() -> Callable[[Event], list[object]]:
    """What came of an event: what was said, or given to ingest."""

    def hear(event: Event) -> list[object]:
        loops, came = Loops(), list[object]()
        memory = MemoryPlan((), loops.progress, loops.metrics, came.append, lambda: None, lambda: None)
        heard(event, ingest=came.append, memory=memory, metrics=loops.metrics, say=came.append)
        return came

    return hear


@pytest.mark.parametrize(("event", "said"), SAID.items())
def test_the_operator_is_told(hear: Callable[[Event], list[object]], event: Event, said: str) -> None:
    assert hear(event) == [said]


def test_a_message_goes_to_ingest(hear: Callable[[Event], list[object]]) -> None:
    assert hear(ACCEPTED) == [ACCEPTED]


def test_every_kind_of_event_comes_out_of_a_frame_as_it_went_in() -> None:
    events: list[Event] = [ACCEPTED, *SAID]
    assert {type(event) for event in events} == set(get_args(Event))
    for event in events:
        (told,) = FrameReader(Told).feed(encode_frame(Told(type(event).__name__, event)))
        assert event_of(told.of, told.value) == event
