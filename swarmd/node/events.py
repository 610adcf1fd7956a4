"""The daemon's reactions to its children's events."""

import logging
from collections.abc import Callable
from typing import assert_never

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
)
from swarmd.loops.ports import Say
from swarmd.metrics import Metrics
from swarmd.node.memory_plan import MemoryPlan

log = logging.getLogger(__name__)


def heard(
    event: Event, *, ingest: Callable[[Accepted], None], memory: MemoryPlan, metrics: Metrics, say: Say
) -> None:
    """Act on an event, and tell the operator what changes how the node learns or whom it reaches."""
    match event:
        case Accepted():
            ingest(event)
        case PlanChanged():
            memory.changed(event)
        case OptimizerRestarted():
            say(f"! optimizer  began anew: {event.why}")
        case SlowPath():
            say(f"! update     slow, {event.cost:.1f} times the tokens go through the model: {event.why}")
            log.warning("prompts are not shared: %s", event.why)
        case CheckpointSkipped():
            say(f"! checkpoint {event.why}")
        case BootstrapChanged():
            mark = "✓" if event.state == "connected" else "!"
            say(f"{mark} bootstrap  {event.address}: {event.state.replace('_', ' ')}")
        case BookLost():
            metrics.state_damaged.labels("peers").inc()
            say(f"! peers      {event.why}: known addresses are lost, bootstraps are not")
        case HostDied():
            say(f"! network    failed inside libp2p ({event.kinds}) and starts anew")
            log.warning("all libp2p objects are made anew: %s", event.kinds)
        case _:
            assert_never(event)
