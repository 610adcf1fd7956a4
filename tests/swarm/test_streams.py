"""The stream keeper, against fakes on a virtual clock; `test_recovery` has it on real sockets."""

from types import SimpleNamespace
from typing import Any

import trio
from libp2p.peer.id import ID

from swarmd.swarm.streams import LOOK_S, StreamKeeper

PEER = ID(b"peer")


class FakePubsub:
    """Registers nobody; notes who was tried."""

    def __init__(self) -> None:
        self.peers: dict[ID, Any] = {}
        self.peer_topics: dict[str, set[ID]] = {"t": {PEER}, "other": set()}
        self._peer_subscription_count: dict[ID, int] = {}
        self.tried: list[float] = []

    def _schedule_peer_stream_retry(self, peer: ID) -> None:
        self.tried.append(trio.current_time())

    def _handle_dead_peer(self, peer: ID) -> None:
        del self.peers[peer]
        for peers in self.peer_topics.values():
            peers.discard(peer)


class FakeNetwork:
    def __init__(self, *connections: Any) -> None:
        self.connections = {PEER: list(connections)} if connections else {}

    def get_connections(self, peer: ID) -> list[Any]:
        return self.connections.get(peer, [])


def connection() -> Any:
    return SimpleNamespace(muxed_conn=SimpleNamespace(peer_id=PEER))


async def looks(keeper: StreamKeeper, num: int) -> None:
    with trio.move_on_after((num + 0.5) * LOOK_S):
        await keeper.run()


async def test_a_connected_peer_without_a_stream_is_tried_again_ever_more_rarely(autojump_clock):
    pubsub = FakePubsub()
    await looks(StreamKeeper(FakeNetwork(connection()), pubsub), 130)
    waits = [later - earlier for earlier, later in zip(pubsub.tried, pubsub.tried[1:], strict=False)]
    assert waits[:3] == [3, 5, 9]
    assert max(waits) <= 61


async def test_a_registered_peer_is_left_alone(autojump_clock):
    pubsub = FakePubsub()
    pubsub.peers[PEER] = object()
    await looks(StreamKeeper(FakeNetwork(connection()), pubsub), 10)
    assert pubsub.tried == []


async def test_a_peer_that_is_being_registered_has_a_moment_for_it(autojump_clock):
    pubsub = FakePubsub()
    await looks(StreamKeeper(FakeNetwork(connection()), pubsub), 1)
    assert pubsub.tried == []


async def test_the_stream_moves_when_its_connection_ends_and_another_is_left():
    pubsub, old, new = FakePubsub(), connection(), connection()
    pubsub.peers[PEER] = SimpleNamespace(muxed_conn=old.muxed_conn)
    network = FakeNetwork(new)
    await StreamKeeper(network, pubsub).disconnected(network, old)
    assert PEER not in pubsub.peers
    assert pubsub.peer_topics["t"] == {PEER}


async def test_the_stream_stays_when_another_connection_ends():
    pubsub, used, spare = FakePubsub(), connection(), connection()
    pubsub.peers[PEER] = SimpleNamespace(muxed_conn=used.muxed_conn)
    network = FakeNetwork(used)
    await StreamKeeper(network, pubsub).disconnected(network, spare)
    assert PEER in pubsub.peers
