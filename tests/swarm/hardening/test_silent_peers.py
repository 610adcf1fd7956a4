"""A connection ends when nothing comes through it, and not for a pong that is late."""

from types import SimpleNamespace

import pytest
import trio

from swarmd.swarm.hardening.counters import Counters
from swarmd.swarm.hardening.silent_peers import LOOK_S, SILENT_S_MAX, Heard, close_silent
from tests.swarm.hardening.kit import HARDENED, TOPIC, becomes, connect_in_topic, running


class Connection:
    """One whose peer says something every `every_s`, and which takes no goodbye where it is `frozen`."""

    def __init__(self, network, every_s, *, frozen=False, fails=False):
        self.heard = SimpleNamespace(heard_s=trio.current_time())
        self.muxed_conn = SimpleNamespace(secured_conn=SimpleNamespace(heard=self.heard))
        self.every_s, self.frozen, self.fails, self.closed_s = every_s, frozen, fails, None
        network.connections[id(self)] = [self]

    async def speak(self):
        while True:
            await trio.sleep(self.every_s)
            self.heard.heard_s = trio.current_time()

    async def close(self):
        self.closed_s = self.closed_s or trio.current_time()
        if self.frozen:
            await trio.sleep_forever()
        if self.fails:
            raise RuntimeError("closing failed")


async def after(seconds, network, *connections):
    counters = Counters(("silent_closed", "close_error"))
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(close_silent, network, counters)
            for connection in connections:
                nursery.start_soon(connection.speak)
    return counters


@pytest.fixture
def network():
    return SimpleNamespace(connections={})


async def test_who_says_anything_in_time_is_kept(network, autojump_clock):
    alive = Connection(network, SILENT_S_MAX - 1)
    await after(20 * SILENT_S_MAX, network, alive)
    assert alive.closed_s is None


async def test_who_says_nothing_is_left_after_the_bound_and_one_look(network, autojump_clock):
    began_s, silent = trio.current_time(), Connection(network, 1e9)
    counters = await after(SILENT_S_MAX + 3 * LOOK_S, network, silent)
    assert began_s + SILENT_S_MAX < silent.closed_s <= began_s + SILENT_S_MAX + 2 * LOOK_S
    assert counters["silent_closed"] > 0


@pytest.mark.parametrize("fault", [{"frozen": True}, {"fails": True}])
async def test_one_that_cannot_be_closed_does_not_keep_the_others(network, autojump_clock, fault):
    bad = [Connection(network, 1e9, **fault) for _ in range(20)]
    began_s, last = trio.current_time(), Connection(network, 1e9)
    await after(SILENT_S_MAX + 4 * LOOK_S, network)
    assert last.closed_s <= began_s + SILENT_S_MAX + 2 * LOOK_S
    assert all(connection.closed_s for connection in bad)


async def test_only_bytes_count_as_heard(autojump_clock):
    answers = [b"some", b""]

    async def read(n):
        await trio.sleep(5)
        return answers.pop(0)

    heard = Heard(read)
    assert [await heard.read(4), heard.heard_s] == [b"some", trio.current_time()]
    heard_s = heard.heard_s
    assert await heard.read(4) == b""
    assert heard.heard_s == heard_s


async def test_every_connection_of_a_hardened_host_is_heard_whoever_dialled():
    async with running(HARDENED) as one, running(HARDENED) as other:
        await connect_in_topic(one, other)
        network = other.host.get_network()
        (connection,) = (c for some in network.connections.values() for c in some)
        before_s = connection.muxed_conn.secured_conn.heard.heard_s
        await one.pubsub.publish(TOPIC, b"data")
        assert await becomes(lambda: connection.muxed_conn.secured_conn.heard.heard_s > before_s)
