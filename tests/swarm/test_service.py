"""NetworkService on real sockets: what is delivered, what is judged, what is refused."""

from types import SimpleNamespace

import pytest
import trio
from libp2p.peer.id import ID

from swarmd.config.network_section import NetworkLimits
from swarmd.errors import ConfigError, LocalError, PortTaken
from swarmd.fair.flow import Flow
from swarmd.swarm.accounts import Account
from swarmd.swarm.hardening import Verdict
from swarmd.swarm.service import NetworkService
from tests.swarm.nodes import LOOPBACK, MANIFEST, Node, batch, seed, swarm, until


async def test_a_valid_batch_reaches_everybody_else_once(nursery):
    nodes = await swarm(nursery, 3)
    message = batch(2)
    reach = await nodes[1].service.publish(message)
    await until(lambda: nodes[0].received and nodes[2].received)
    assert reach == (2, 2)
    assert [node.received for node in nodes] == [[message], [], [message]]


async def test_the_forwarder_is_credited(nursery):
    first, second = await swarm(nursery, 2)
    await second.service.publish(batch(2))
    await until(lambda: first.received)
    (peer,) = await first.service.peers()
    assert (peer.peer_id, peer.accepted, peer.rejected) == (second.peer_id, 1, 0)
    assert (peer.direction, peer.address) == ("inbound", "127.0.0.1")


async def test_what_no_honest_author_sends_is_rejected_and_not_emitted(nursery):
    first, second = await swarm(nursery, 2)
    forged = bytearray(batch(2))
    forged[len(forged) // 2] ^= 1
    await publish_unchecked(second, bytes(forged))
    await publish_unchecked(second, b"garbage")
    await until(lambda: account(first, second).rejected == 2)
    (peer,) = await first.service.peers()
    assert (first.received, peer.rejected) == ([], 2)


async def test_what_may_be_honest_but_is_too_old_is_ignored(nursery):
    first, second = await swarm(nursery, 2)
    await publish_unchecked(second, batch(2, age_ms=MANIFEST.limits.age_s_max * 1000 + 60_000))
    await until(lambda: account(first, second).ignored == 1)
    (peer,) = await first.service.peers()
    assert (first.received, peer.ignored, peer.rejected) == ([], 1, 0)


async def test_a_replay_is_not_emitted_again(nursery):
    first, second = await swarm(nursery, 2)
    message = batch(2)
    await second.service.publish(message)
    await publish_unchecked(second, message)
    await until(lambda: first.received and account(first, second).ignored == 1)
    assert first.received == [message]


async def test_a_flood_is_ignored_before_any_rule_runs(nursery):
    first, second = await swarm(
        nursery, 2, limits=NetworkLimits(messages_per_s_max=0.001, messages_burst_max=1)
    )
    await second.service.publish(batch(2, counter=1))
    await second.service.publish(batch(2, counter=2))
    await until(lambda: first.service._counters["rate_limited"] == 1 and first.received)
    assert len(first.received) == 1


async def test_a_message_refused_for_its_forwarders_rate_may_come_by_another_way(nursery):
    node = await Node(1, limits=NetworkLimits(messages_per_s_max=0.001, messages_burst_max=1)).start(nursery)
    flooder, friend = ID(b"flooder"), ID(b"friend")
    message = SimpleNamespace(data=batch(2), from_id=b"friend")
    await node.service._verdict(flooder, SimpleNamespace(data=b"garbage", from_id=b"flooder"))
    assert await node.service._verdict(flooder, message) is None
    assert await node.service._verdict(friend, message) is Verdict.ACCEPT


async def test_what_a_connected_peer_says_waits_in_its_own_flow_whoever_brings_it(nursery):
    first, second = await swarm(nursery, 2)
    flows, bringers, said = [], [], second.service._stack.host.get_id()
    stranger, relay = ID(b"stranger"), ID(b"relay")

    async def note(flow, origin, judge, *, bringer):
        flows.append(flow)
        bringers.append(bringer)

    first.service._intake.judge.verdict = note
    for forwarder, origin in ((said, said), (relay, said), (relay, stranger), (relay, relay)):
        message = SimpleNamespace(data=batch(2), from_id=origin.to_bytes())
        assert await first.service._verdict(forwarder, message) is None
    relayed = Flow(relay.to_bytes(), own=False)
    own = [Flow(peer.to_bytes(), own=True) for peer in (said, said, relay)]
    assert flows == [*own[:2], relayed, own[2]]
    assert bringers == [peer.to_bytes() for peer in (said, relay, relay, relay)]


async def test_a_message_may_be_published_again(nursery):
    node = await Node(1).start(nursery)
    message = batch(1)
    await node.service.publish(message)
    assert await node.service.publish(message) == (0, 0)


async def test_our_own_invalid_message_is_refused_at_home(nursery):
    node = await Node(1).start(nursery)
    with pytest.raises(LocalError, match="rule"):
        await node.service.publish(b"garbage")


async def test_publishing_alone_is_no_error(nursery):
    node = await Node(1).start(nursery)
    assert await node.service.publish(batch(1)) == (0, 0)


async def test_stats_are_plain_values_with_every_rule(nursery):
    node = await Node(1).start(nursery)
    stats = (await node.service.stats()).to_document()
    assert stats["host_deaths"] == 0
    assert all(isinstance(value, int | float | str | dict) for value in stats.values())


@pytest.mark.parametrize(
    "args",
    [
        {"bootstrap": ["/ip4/127.0.0.1/tcp/1"]},
        {"bootstrap": ["nonsense"]},
        {"listen": "/ip4/127.0.0.1/udp/1/quic-v1"},
        {"announce": "/ip4/0.0.0.0/tcp/1"},
    ],
)
def test_a_malformed_setting_is_a_config_error_at_once(args):
    with pytest.raises(ConfigError):
        NetworkService(
            lambda event: None,
            identity_seed=seed(1),
            manifest=MANIFEST.to_bytes(),
            **{"listen": LOOPBACK, **args},
        )


async def test_a_port_in_use_ends_with_its_exit_code():
    holder = trio.socket.socket()
    await holder.bind(("127.0.0.1", 0))
    holder.listen(1)
    node = Node(1, listen=f"/ip4/127.0.0.1/tcp/{holder.getsockname()[1]}")
    with pytest.raises(PortTaken) as caught:
        await node.service.run()
    assert caught.value.exit_code == 11


async def test_two_nodes_cannot_share_a_port(nursery):
    first = await Node(1).start(nursery)
    second = Node(2, listen=first.address.split("/p2p/")[0])
    with pytest.raises(PortTaken):
        await second.service.run()


async def test_an_address_of_another_machine_cannot_be_listened_on():
    with pytest.raises(PortTaken):
        await Node(1, listen="/ip4/192.0.2.1/tcp/4810").service.run()


def account(node: Node, peer: Node) -> Account:
    """What the node has counted of the peer, whose messages are judged some time after they are received."""
    return node.service._intake.accounts.of(peer.peer_id, trio.current_time())


async def publish_unchecked(node: Node, data: bytes) -> None:
    """As a dishonest or broken node would: past its own rules."""
    stack = node.service._stack
    assert stack is not None
    await stack.pubsub.publish(MANIFEST.topic, data)
