"""A hostile peer says what it likes to a real node, and the node judges it."""

from collections import Counter

import trio

from tests.attack.peer import hostile_peer
from tests.swarm.nodes import MANIFEST, Node, batch, seed, until


async def test_a_hostile_peer_reaches_a_node_with_good_bytes_and_bad() -> None:
    counted: Counter[str] = Counter()
    async with trio.open_nursery() as nursery:
        node = await Node(1).start(nursery)
        async with hostile_peer(seed(9), MANIFEST.topic, counted, [node.address]) as peer:
            good = batch(9)
            # when
            await peer.send(good)
            await peer.send(b"\x01garbage")
            await peer.write(b"\xff" * 12)
            # then
            await until(lambda: node.received == [good])
            await until(lambda: node.service._intake.rules["message_decode"])
            assert counted["sent"] == 3
        nursery.cancel_scope.cancel()


async def test_a_peer_that_nobody_lets_in_counts_it_and_goes_on() -> None:
    counted: Counter[str] = Counter()
    async with hostile_peer(seed(9), MANIFEST.topic, counted, [f"/ip4/127.0.0.1/tcp/1/p2p/{NOBODY}"]) as peer:
        await peer.send(b"x")
    assert (counted["sent"], counted["refused"], counted["dials_refused"]) == (0, 1, 1)


NOBODY = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
