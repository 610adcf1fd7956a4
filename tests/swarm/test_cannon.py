"""A hostile peer names one third party again and again to a node in a process of its own: what the third party gets is bounded."""

import itertools
import json
import subprocess
import sys

import trio
from libp2p.abc import INetStream

from swarmd.config.network_section import NetworkLimits
from swarmd.protocol.signing import Identity
from swarmd.swarm import exchange
from swarmd.swarm.addresses import parse_listen
from swarmd.swarm.dialling import DIALS_MAX
from swarmd.swarm.hints import FAILURES_MAX
from swarmd.swarm.host import build
from tests.swarm.nodes import LOOPBACK, seed, until


class Victim:
    """A listener that says nothing, and how often it was called."""

    def __init__(self) -> None:
        self.num_calls = 0
        self.port = 0

    async def run(self, task_status: trio.TaskStatus) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        await trio.serve_listeners(self._called, [listener], task_status=task_status)

    async def _called(self, stream: trio.SocketStream) -> None:
        self.num_calls += 1


class Liar:
    """A peer that answers every question with 32 fresh names at the victim's address."""

    def __init__(self, victim: Victim) -> None:
        self.victim, self.num_answers, self.address = victim, 0, ""
        self._ids = (Identity.from_seed(seed(number)).peer_id for number in itertools.count(1000))

    async def run(self, task_status: trio.TaskStatus) -> None:
        stack = build(seed(7), parse_listen(LOOPBACK), None, NetworkLimits(), "topic")
        stack.host.set_stream_handler(exchange.PROTOCOL, self._lie)
        async with stack.running():
            self.address = f"/ip4/127.0.0.1/tcp/{stack.port}/p2p/{stack.peer_id}"
            task_status.started()
            await trio.sleep_forever()

    async def _lie(self, stream: INetStream) -> None:
        await exchange.read_question(stream)
        at = f"/ip4/127.0.0.1/tcp/{self.victim.port}"
        await exchange.answer(stream, [f"{at}/p2p/{one}" for one in itertools.islice(self._ids, 32)])
        self.num_answers += 1


async def test_a_third_party_that_a_liar_names_is_called_once_for_each_dial_that_begins_at_once(nursery):
    # given
    victim = Victim()
    await nursery.start(victim.run)
    liar = Liar(victim)
    await nursery.start(liar.run)
    # when a node that knows only the liar has asked it four times
    node = [sys.executable, "-m", "tests.swarm.lone_node", "0", liar.address]
    process = await trio.lowlevel.open_process(node, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert json.loads(await process.stdout.receive_some())["peer_id"]
        await until(lambda: liar.num_answers >= 4)
    finally:
        process.kill()
        await process.wait()
    # then
    assert 0 < victim.num_calls < DIALS_MAX + FAILURES_MAX["machine by teller"]
