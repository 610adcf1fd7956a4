"""Bans on real sockets: who is banned is put out, kept out, and let in again; and nobody else suffers for it."""

from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12
from libp2p.pubsub.pb import rpc_pb2
from libp2p.utils import encode_varint_prefixed

from swarmd.protocol.signing import Identity
from swarmd.swarm.hardening import Verdict
from swarmd.trust.evidence import POINTS
from tests.swarm.nodes import MANIFEST, Node, batch, seed, swarm, until


def key(number: int) -> bytes:
    return Identity.from_seed(seed(number)).public_key


def connected(node: Node) -> set[str]:
    return set(node.service._connections.since)


async def publish_unchecked(node: Node, data: bytes) -> None:
    """Publish past the node's own rules, as a hostile node would."""
    node.service._stack.pubsub.set_validator(MANIFEST.topic, _accept)
    await node.service._stack.pubsub.publish(MANIFEST.topic, data)


async def send_rpc(sender: Node, receiver: Node, rpc) -> None:
    """Write an RPC on a stream of its own."""
    stack = sender.service._stack
    stream = await stack.host.new_stream(receiver.service._stack.host.get_id(), [PROTOCOL_ID_V12])
    await stream.write(encode_varint_prefixed(rpc.SerializeToString()))


async def _accept(forwarder, message):
    return Verdict.ACCEPT


async def test_a_banned_peer_is_put_out_kept_out_and_let_in_again(nursery):
    first, second, third = await swarm(nursery, 3)
    assert await first.service.ban([key(2)]) == 1
    await until(lambda: second.peer_id not in connected(first))
    refused = await first.stat("banned_connections")
    # the banned one tries again and again, as it was told to by its bootstrap
    await until(lambda: first.service._counters["banned_connections"] > refused)
    assert connected(first) == {third.peer_id}
    await first.service.ban([])
    await until(lambda: second.peer_id in connected(first))
    await second.service.publish(batch(2))
    await until(lambda: first.received)


async def test_a_ban_that_was_there_at_the_start_holds_from_the_start(nursery):
    first = await Node(1, banned=[key(2)]).start(nursery)
    await Node(2, [first.address]).start(nursery)
    third = await Node(3, [first.address]).start(nursery)
    await until(lambda: third.peer_id in connected(first) and first.service._counters["banned_connections"])
    assert connected(first) == {third.peer_id}


async def test_a_banned_bootstrap_is_not_dialled(nursery):
    bootstrap = await Node(1).start(nursery)
    node = await Node(2, [bootstrap.address], banned=[key(1)]).start(nursery)
    other = await Node(3, [node.address]).start(nursery)
    await until(lambda: other.peer_id in connected(node))
    assert bootstrap.peer_id not in connected(node)
    assert (await node.stat("bootstrap")) == {bootstrap.address: "banned"}
    assert connected(bootstrap) <= {other.peer_id}


async def test_a_banned_author_does_not_get_in_through_others(nursery):
    first, second, third = await swarm(nursery, 3)
    await first.service.ban([key(2)])
    await until(lambda: second.peer_id not in connected(first))
    await publish_unchecked(third, batch(2))  # signed by the banned one, published by an honest one
    await until(lambda: first.service._counters["banned_messages"] == 1)
    (peer,) = [row for row in await first.service.peers() if row.peer_id == third.peer_id]
    assert (first.received, peer.rejected, await first.service.accusations()) == ([], 0, [])


async def test_the_others_go_on(nursery):
    first, second, third = await swarm(nursery, 3)
    await first.service.ban([key(2)])
    message = batch(3)
    await third.service.publish(message)
    await until(lambda: first.received and second.received)
    assert (first.received, second.received) == ([message], [message])


async def test_a_ban_outlives_the_libp2p_objects(nursery):
    first = await Node(1).start(nursery)
    await first.service.ban([key(2)])
    first.service._stack.pubsub.manager.cancel()
    await until(lambda: first.service._counters["host_deaths"] == 1 and first.service._stack)
    await Node(2, [first.address]).start(nursery)
    await until(lambda: first.service._counters["banned_connections"])
    assert connected(first) == set()


async def test_what_no_honest_node_does_is_evidence_once(nursery):
    first, second = await swarm(nursery, 2)
    await publish_unchecked(second, b"garbage")
    await publish_unchecked(second, batch(2)[:-1] + b"x")
    await publish_unchecked(second, batch(2, age_ms=MANIFEST.limits.age_s_max * 1000 + 60_000))
    await until(lambda: first.service._intake.rules.total() == 3)  # judged, not only received
    found = await first.service.accusations()
    assert found == [(key(2), "forwarded_reject", 2)]
    assert found[0][1] in POINTS
    assert await first.service.accusations() == []


async def test_an_rpc_that_no_honest_node_sends_is_evidence_and_the_third_ends_the_connection(nursery):
    first, second = await swarm(nursery, 2)
    message = rpc_pb2.Message(topicIDs=[MANIFEST.topic, *map(str, range(34_000))])
    for _ in range(3):
        await send_rpc(second, first, rpc_pb2.RPC(publish=[message]))
    await until(lambda: first.service._stack.pubsub.counters["peer_closed"] == 1)
    assert await first.service.accusations() == [(key(2), "broken_rpc", 3)]
    assert await first.stat("received") == 0


async def test_honest_nodes_have_nothing_to_say_of_each_other(nursery):
    nodes = await swarm(nursery, 3)
    for counter in range(5):
        for number, node in enumerate(nodes, 1):
            await node.service.publish(batch(number, counter))
    await until(lambda: all(len(node.received) == 10 for node in nodes))
    assert [await node.service.accusations() for node in nodes] == [[], [], []]


async def test_a_ban_while_the_network_is_rebuilt_waits_for_it():
    node = Node(1)
    assert await node.service.ban([key(2)]) == 0
    assert node.service._gate.bans_key(key(2))
