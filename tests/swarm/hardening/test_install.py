"""The pieces together: mixed swarms, and the version the pieces are made for."""

import pytest

from swarmd.errors import LocalError
from swarmd.swarm import hardening
from tests.swarm.hardening.kit import HARDENED, STOCK, TOPIC, becomes, connect_in_topic, running


def test_another_version_of_the_library_is_refused(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.9.0")
    with pytest.raises(LocalError, match=r"0\.9\.0"):
        hardening.install_once()


@pytest.mark.parametrize("size", [100, 60_000, 250_000])
@pytest.mark.parametrize("kinds", [(HARDENED, STOCK), (STOCK, HARDENED), (HARDENED, HARDENED)], ids="-".join)
async def test_messages_go_from_one_kind_to_the_other(kinds, size):
    async with running(kinds[0]) as sender, running(kinds[1]) as receiver:
        await connect_in_topic(sender, receiver)
        arrived = []
        receiver.pubsub.notify_subscriptions = arrived.append
        await sender.pubsub.publish(TOPIC, bytes(size))
        assert await becomes(lambda: arrived)
        assert len(arrived[0].data) == size


async def test_a_hardened_pair_counts_no_error():
    async with running(HARDENED) as one, running(HARDENED) as other:
        await connect_in_topic(one, other)
        for _ in range(5):
            await one.pubsub.publish(TOPIC, b"data")
        assert await becomes(lambda: other.pubsub.counters["accept"] == 5)
        for node in (one, other):
            for counters in (node.counters, node.router.counters, node.pubsub.counters):
                assert not {name: num for name, num in counters.items() if num and "error" in name}
