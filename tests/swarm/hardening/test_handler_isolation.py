"""T2: whatever a stream handler raises."""

import pytest
from libp2p.custom_types import TProtocol

from tests.swarm.hardening.kit import HARDENED, both, survives

FAULTY = TProtocol("/test/faulty/1")


@both
@pytest.mark.parametrize("error", [ValueError("bug"), OSError("broken"), KeyError("missing")], ids=repr)
async def test_host_outlives_a_failing_handler_unless_stock(kind, error):
    async def handler(stream):
        raise error

    async def deed(victim, peer):
        victim.host.set_stream_handler(FAULTY, handler)
        await peer.host.new_stream(victim.peer_id, [FAULTY])

    assert await survives(kind, deed) is (kind == HARDENED)


async def test_a_failing_handler_is_counted_and_its_stream_reset():
    seen = []

    async def handler(stream):
        seen.append(stream)
        raise ValueError

    async def deed(victim, peer):
        victim.host.set_stream_handler(FAULTY, handler)
        await peer.host.new_stream(victim.peer_id, [FAULTY])
        seen.append(victim)

    assert await survives(HARDENED, deed)
    victim, stream = sorted(seen, key=lambda thing: not hasattr(thing, "pubsub"))
    assert victim.counters["handler_error"] == 1
    assert stream.is_closed
