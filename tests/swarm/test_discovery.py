"""Finding each other: through one bootstrap, without it, and in spite of it."""

import random
import socket

import pytest
import trio

from swarmd.protocol.signing import Identity
from swarmd.swarm.addresses import parse
from swarmd.swarm.bootstrap import BACK_OFF_S_MAX, HINT_FAILURES_MAX, back_off_s
from tests.swarm.nodes import Node, batch, seed, swarm, until

STRANGER = Identity.from_seed(seed(99)).peer_id


async def test_four_nodes_with_one_bootstrap_form_a_full_mesh(nursery):
    nodes = await swarm(nursery, 4)
    assert [len((await node.service.peers())["peers"]) for node in nodes] == [3, 3, 3, 3]


async def test_the_others_go_on_when_the_bootstrap_is_gone(nursery):
    first, second, third = await swarm(nursery, 3)
    await first.stop()
    await until(lambda: len(second.service._connected_at) == 1)
    await second.service.publish(batch(2))
    await until(lambda: third.received)


async def test_a_bootstrap_that_comes_later_is_found(nursery):
    probe = await Node(1).start(nursery)
    await probe.stop()
    second = await Node(2, [probe.address]).start(nursery)
    await until(lambda: second.service._counters["dial_refused"] >= 1)
    await Node(1, listen=probe.address.split("/p2p/")[0]).start(nursery)
    await second.meshed(1)


async def test_the_peer_book_replaces_a_lost_bootstrap(nursery, tmp_path):
    first, second = await swarm(nursery, 2, limits={"peers_wanted": 1})  # so that the third does the dialling
    third = await Node(3, [first.address], peers_path=str(tmp_path / "peers.json")).start(nursery)
    await until(lambda: len(third.service._book.addresses()) == 2)
    await third.stop()
    await first.stop()
    again = await Node(3, [], peers_path=str(tmp_path / "peers.json")).start(nursery)
    await again.meshed(1)
    assert [peer["peer_id"] for peer in (await again.service.peers())["peers"]] == [second.peer_id]


async def test_a_mute_bootstrap_delays_neither_the_start_nor_the_other_bootstrap(nursery):
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    nursery.start_soon(trio.serve_listeners, mute, [listener])
    port = listener.socket.getsockname()[1]
    first = await Node(1).start(nursery)
    second = await Node(2, [f"/ip4/127.0.0.1/tcp/{port}/p2p/{STRANGER}", first.address]).start(nursery)
    await second.meshed(1)
    # The dial of the mute one is still under way.
    assert (await second.stat("bootstrap"))[first.address] == "connected"
    assert await second.stat("dial_timeout") == 0


async def test_a_wrong_peer_id_is_reported(nursery):
    first = await Node(1).start(nursery)
    stale = f"{first.address.split('/p2p/')[0]}/p2p/{STRANGER}"
    second = await Node(2, [stale]).start(nursery)
    await until(lambda: second.service._counters["dial_wrong_peer_id"])
    assert ("bootstrap", {"address": stale, "state": "wrong_peer_id"}) in second.events


async def test_a_damaged_peer_book_is_counted_and_no_more(nursery, tmp_path):
    (tmp_path / "peers.json").write_text("{")
    node = await Node(1, peers_path=str(tmp_path / "peers.json")).start(nursery)
    assert await node.stat("book_corrupt") == 1


async def test_a_node_in_its_own_bootstrap_list_does_not_dial_itself(nursery):
    probe = await Node(1).start(nursery)
    await probe.stop()
    node = await Node(1, [probe.address], listen=probe.address.split("/p2p/")[0]).start(nursery)
    assert await node.stat("bootstrap") == {}


@pytest.mark.parametrize(
    ("num_failures", "longest_s"), [(1, 1), (2, 2), (6, 32), (7, BACK_OFF_S_MAX), (9999, BACK_OFF_S_MAX)]
)
def test_back_off_doubles_to_a_minute_with_jitter(num_failures, longest_s):
    delays_s = [back_off_s(num_failures, random.Random(n)) for n in range(200)]
    assert longest_s / 2 <= min(delays_s) < max(delays_s) <= longest_s


async def mute(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


async def test_a_hint_that_failed_is_not_taken_up_again(nursery, monkeypatch):
    # given a hint at which nobody listens
    monkeypatch.setattr("swarmd.swarm.bootstrap.back_off_s", lambda num_failures, rng: 0.0)
    node = await Node(1).start(nursery)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = parse(f"/ip4/127.0.0.1/tcp/{closed.getsockname()[1]}/p2p/{STRANGER}")
        discovery = node.service._discovery
        # when it was tried as often as hearsay deserves
        discovery._add(address, HINT_FAILURES_MAX)
        discovery._changed.set()
        await until(lambda: address.text not in discovery._candidates)
    # then it is remembered, so that the next peer who tells it does not bring it back
    assert discovery._failed_until[address.text] > trio.current_time()
    assert await node.stat("dial_refused") == HINT_FAILURES_MAX
