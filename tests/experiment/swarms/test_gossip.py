"""One contract for the network child and for gossip in memory: what is published, who gets it, how often, and what is refused."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from swarmd.errors import LocalError
from swarmd.experiment.swarms.gossip import MemoryGossip
from tests.swarm.nodes import MANIFEST, batch, swarm, until


@dataclass
class Member:
    """What both kinds of node have in common."""

    service: Any
    messages: list[bytes] = field(default_factory=list)
    node: Any = None

    @property
    def received(self) -> list[bytes]:
        return self.node.received if self.node else self.messages


def in_memory(num: int) -> list[Member]:
    gossip = MemoryGossip(MANIFEST, lambda: time.time_ns() // 1_000_000)
    members = []
    for number in range(num):
        messages: list[bytes] = []
        port = gossip.join(f"peer {number}", lambda accepted, to=messages: to.append(accepted.data))
        members.append(Member(port, messages))
    return members


@pytest.fixture(params=["memory", "libp2p"])
async def three(request, nursery):
    if request.param == "memory":
        return in_memory(3)
    return [Member(node.service, node=node) for node in await swarm(nursery, 3)]


async def test_a_message_reaches_every_other_once_and_its_bytes_are_untouched(three):
    message = batch(2)
    assert await three[1].service.publish(data=message) == (2, 2)
    await until(lambda: three[0].received and three[2].received)
    assert [member.received for member in three] == [[message], [], [message]]


async def test_messages_of_one_author_arrive_all(three):
    messages = [batch(1, counter) for counter in range(5)]
    for message in messages:
        await three[0].service.publish(data=message)
    for other in three[1:]:
        await until(lambda other=other: len(other.received) == 5)
        assert sorted(other.received) == sorted(messages)


async def test_publishing_again_is_no_error_and_arrives_nowhere_twice(three):
    message = batch(2)
    await three[1].service.publish(data=message)
    await until(lambda: three[0].received)
    assert (await three[1].service.publish(data=message)).subscribers == 2
    marker = batch(2, 7)
    await three[1].service.publish(data=marker)
    await until(lambda: marker in three[0].received)
    assert three[0].received == [message, marker]


@pytest.mark.parametrize("age_ms", [-3_600_000, MANIFEST.limits.age_s_max * 1000 + 60_000, None])
async def test_what_the_rules_refuse_is_refused_at_home_and_reaches_nobody(three, age_ms):
    message = b"garbage" if age_ms is None else batch(2, age_ms=age_ms)
    with pytest.raises(LocalError, match="refused by rule"):
        await three[1].service.publish(data=message)
    marker = batch(2, 7)
    await three[1].service.publish(data=marker)
    await until(lambda: marker in three[0].received)
    assert three[0].received == [marker]
    assert (await three[1].service.stats()).others["publish_refused"] == 1


async def test_looking(three):
    await three[1].service.publish(data=batch(2))
    await until(lambda: three[0].received)
    peers = await three[0].service.peers()
    assert len({peer.peer_id for peer in peers}) == len(peers) == 2
    stats = await three[0].service.stats()
    assert (stats.received, stats.verdicts["accepted"], stats.rate_limited) == (1, 1, 0)
    assert (stats.others["peers"], *stats.reach) == (2, 2, 2)


async def test_whatever_memory_says_of_itself_the_network_says_in_the_same_words(nursery):
    (memory, *_), (real, *_) = in_memory(2), await swarm(nursery, 2)
    ours, theirs = [(await one.service.stats()).to_document() for one in (memory, real)]
    assert {name: type(value) for name, value in ours.items()} == {name: type(theirs[name]) for name in ours}
    assert set(ours["verdicts"]) == set(theirs["verdicts"])
