"""Finding each other: through one bootstrap, without it, and in spite of it."""

import json
import random
import socket
from contextlib import suppress

import pytest
import trio
from libp2p.host.exceptions import StreamFailure

from swarmd.clients.events import BootstrapChanged
from swarmd.config.network_section import NetworkLimits
from swarmd.protocol.signing import Identity
from swarmd.swarm import discovery, exchange
from swarmd.swarm.addresses import parse
from swarmd.swarm.bootstrap_list import BootstrapList
from swarmd.swarm.dialling import BACK_OFF_S_MAX, DIALLED_PER_NET_MAX, LIFE_S_GOOD, back_off_s
from tests.swarm.nodes import Node, batch, seed, swarm, until

STRANGER = Identity.from_seed(seed(99)).peer_id


async def test_four_nodes_with_one_bootstrap_form_a_full_mesh(nursery):
    nodes = await swarm(nursery, 4)
    assert [len(await node.service.peers()) for node in nodes] == [3, 3, 3, 3]


async def test_the_others_go_on_when_the_bootstrap_is_gone(nursery):
    first, second, third = await swarm(nursery, 3)
    await first.stop()
    await until(lambda: len(second.service._connections.since) == 1)
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
    first, second = await swarm(
        nursery, 2, limits=NetworkLimits(peers_wanted=1)
    )  # so that the third does the dialling
    third = await Node(3, [first.address], peers_path=str(tmp_path / "peers.json")).start(nursery)
    await until(lambda: len(third.service._book.addresses()) == 2)
    await third.stop()
    await first.stop()
    again = await Node(3, [], peers_path=str(tmp_path / "peers.json")).start(nursery)
    await again.meshed(1)
    assert [peer.peer_id for peer in await again.service.peers()] == [second.peer_id]


async def test_the_operators_list_is_taken_over_while_the_node_runs(nursery, tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "LOOK_S", 0.05)
    path = tmp_path / "bootstrap.txt"
    first, second = await Node(1).start(nursery), await Node(2).start(nursery)
    node = await Node(3, bootstrap_path=str(path)).start(nursery)
    BootstrapList(path).add(parse(first.address))
    BootstrapList(path).add(parse(second.address))
    await node.meshed(2)
    assert await node.stat("bootstrap") == {first.address: "connected", second.address: "connected"}
    path.write_text("not an address")  # what is half written changes nothing
    await trio.sleep(0.2)
    assert len(await node.stat("bootstrap")) == 2
    path.write_text(second.address)
    with trio.fail_after(60):
        while await node.stat("bootstrap") != {second.address: "connected"}:
            await trio.sleep(0.02)


async def test_a_mute_bootstrap_delays_neither_the_start_nor_the_other_bootstrap(nursery):
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    nursery.start_soon(trio.serve_listeners, mute, [listener])
    port = listener.socket.getsockname()[1]
    first = await Node(1).start(nursery)
    second = await Node(2, [f"/ip4/127.0.0.1/tcp/{port}/p2p/{STRANGER}", first.address]).start(nursery)
    await second.meshed(1)
    # The dial of the mute one is still under way.
    assert (await second.stat("bootstrap"))[first.address] == "connected"
    assert await second.dials("timeout") == 0


async def test_a_bootstrap_that_is_not_there_is_reported(nursery):
    absent = f"/ip4/127.0.0.1/tcp/1/p2p/{STRANGER}"
    node = await Node(2, [absent]).start(nursery)
    await until(lambda: BootstrapChanged(absent, "refused") in node.events)


async def test_a_wrong_peer_id_is_reported(nursery):
    first = await Node(1).start(nursery)
    stale = f"{first.address.split('/p2p/')[0]}/p2p/{STRANGER}"
    second = await Node(2, [stale]).start(nursery)
    await until(lambda: second.service._counters["dial_wrong_peer_id"])
    assert BootstrapChanged(stale, "wrong_peer_id") in second.events


async def test_mute_askers_do_not_take_the_places_of_others(nursery):
    bootstrap, mute_one, asker = await swarm(nursery, 3)
    victim = bootstrap.service._stack.host.get_id()
    ask = mute_one.service._stack.host.new_stream
    streams = []
    for _ in range(40):
        with suppress(StreamFailure):  # one that is refused may be gone before it was named
            streams.append(await ask(victim, [exchange.PROTOCOL]))
    await until(lambda: bootstrap.service._counters["exchange_busy"] >= 20)
    frame = await exchange.ask(asker.service._stack.host, victim, [])
    assert [address.peer_id for address in frame.addresses] == [mute_one.peer_id]
    assert streams


async def test_who_has_left_leaves_no_agent(nursery):
    node, other = await swarm(nursery, 2)
    discovery, gone = node.service._discovery, other.service._stack.host.get_id()
    await until(lambda: discovery.agent_of(other.peer_id))
    await other.stop()
    await until(lambda: not discovery.agent_of(other.peer_id))
    discovery._note_agent(gone, "read late")
    assert not discovery._agents


async def test_who_takes_us_and_drops_us_at_once_is_dialled_ever_more_rarely(nursery):
    bootstrap, node = await swarm(nursery, 2)
    dialler = node.service._discovery._dialler
    known = dialler._known[bootstrap.address]
    for _ in range(7):
        dialler.connection_changed(bootstrap.peer_id, connected=False)
    assert known.due_at - trio.current_time() > BACK_OFF_S_MAX / 2 - 1
    known.dialled_at -= LIFE_S_GOOD
    dialler.connection_changed(bootstrap.peer_id, connected=False)
    assert known.due_at - trio.current_time() <= 1


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


async def test_a_hint_is_dialled_once_and_not_taken_up_again(nursery):
    # given a hint at which nobody listens
    node = await Node(1).start(nursery)
    dialler = node.service._discovery._dialler
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hint = parse(f"/ip4/127.0.0.1/tcp/{closed.getsockname()[1]}/p2p/{STRANGER}")
        # when one peer after another names it
        dialler.tell(hint, "127.0.0.1", "one")
        await until(lambda: node.service._counters["dial_refused"])
        dialler.tell(hint, "127.0.0.1", "another")
    # then
    assert await node.dials("refused") == 1
    assert await node.stat("exchange_hints_failed") == 1
    assert dialler._next_hint() is None


async def test_one_public_net_does_not_hold_all_wanted_places(nursery, monkeypatch):
    # given five peers in one net that is not ours
    peers = [await Node(number).start(nursery) for number in range(1, 6)]
    node = await Node(9).start(nursery)
    dialler = node.service._discovery._dialler
    monkeypatch.setattr(dialler, "is_near", lambda host: False)
    # when all of them are named
    for peer in peers:
        dialler._hints.tell(parse(peer.address), "liar", trio.current_time())
    dialler._changed.set()
    await until(lambda: dialler._num_dialled() == DIALLED_PER_NET_MAX and not dialler._under_way)
    # then two are dialled, and the others wait, though twelve are wanted
    assert dialler.is_wanting()
    assert dialler._next_hint() is None
    assert dialler._hints.num_waiting == 3


async def test_of_the_peer_book_only_what_a_stranger_may_name_is_dialled(nursery, tmp_path):
    hosts = [
        "ip4/127.0.0.1/tcp/80",
        "dns4/localhost/tcp/4810",
        "ip4/169.254.169.254/tcp/4810",
        "ip4/0.0.0.1/tcp/1",
    ]
    peers = [
        {"address": f"/{host}/p2p/{Identity.from_seed(seed(50 + n)).peer_id}", "last_ok_s": 1}
        for n, host in enumerate(hosts)
    ]
    (tmp_path / "peers.json").write_text(json.dumps({"version": 1, "peers": peers}))
    node = await Node(1, peers_path=str(tmp_path / "peers.json")).start(nursery)
    assert await node.stat("book_size") == 4
    assert node.service._discovery._dialler._known == {}


async def test_a_bootstrap_by_name_is_remembered_by_number(nursery):
    first, second = await swarm(nursery, 2)
    book = second.service._book
    book._last_ok_s.clear()
    second.service._discovery._succeeded(parse(first.address.replace("/ip4/127.0.0.1", "/dns4/node.example")))
    assert [address.text for address in book.addresses()] == [first.address]


async def test_addresses_that_worked_are_told_before_those_that_are_claimed(nursery):
    # given a node that dialled one peer and was dialled by two
    first = await Node(1).start(nursery)
    node = await Node(2, [first.address], limits=NetworkLimits(peers_wanted=1)).start(nursery)
    for number in (3, 4):
        await Node(number, [node.address], limits=NetworkLimits(peers_wanted=1)).start(nursery)
    discovery = node.service._discovery
    peers = discovery._whereabouts._peers
    await until(
        lambda: sum(peer.claimed is not None for peer in peers.values()) == 3 and peers[first.peer_id].dialled
    )
    # when the third asks
    asker = next(peer for peer in discovery._network.connections if str(peer) != first.peer_id)
    told = discovery._known_to(asker)
    # then
    assert told[0] == first.address
    assert len(told) == 2
