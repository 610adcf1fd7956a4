"""One node in a namespace: a network service that publishes a batch each half second and says what it knows when asked.

Started as `python -m tests.homes.node NUMBER OPTIONS BOOTSTRAP...`, the options as JSON (`Options`). Its first line is its address;
then each line of input is answered with one line of JSON: how often each author was heard and how late, peers, bans and counts.
What was heard counts since the last question.
"""

import json
import sys
from collections import Counter
from functools import partial
from typing import NamedTuple

import trio

from swarmd.clients.events import Accepted, NetworkEvent
from swarmd.clock import now_ms
from swarmd.config.network_section import NetworkLimits
from swarmd.protocol.signing import Identity
from swarmd.protocol.wire import decode_message
from swarmd.swarm.hardening.quiet_logs import silence_libp2p
from swarmd.swarm.service import NetworkService
from swarmd.trust.peer_key import peer_id_of_key
from swarmd.trust.standing import Standings
from tests.swarm.nodes import MANIFEST, batch, seed

PERIOD_S = 0.5
# How often the daemon asks its network process for accusations.
TICK_S = 1.0


class Options(NamedTuple):
    """`local_discovery`, and how many peers it dials because others named them."""

    local_discovery: bool = True
    peers_wanted: int = 12


class Node:
    """The service, and what it told."""

    def __init__(self, number: int, options: Options, bootstrap: list[str]) -> None:
        self.heard: Counter[int] = Counter()
        self.delays_ms: list[int] = []
        self._authors = {Identity.from_seed(seed(other)).public_key: other for other in range(1, 64)}
        self._number, self._standings = number, Standings(proven_rollouts=32, ban_points=100.0)
        self.service = NetworkService(
            self._emit,
            identity_seed=seed(number),
            manifest=MANIFEST.to_bytes(),
            listen="/ip4/0.0.0.0/tcp/4810",
            bootstrap=bootstrap,
            local_discovery=options.local_discovery,
            limits=NetworkLimits(peers_wanted=options.peers_wanted),
        )

    def _emit(self, event: NetworkEvent) -> None:
        if isinstance(event, Accepted):
            header = decode_message(event.data, MANIFEST.limits).header
            self.heard[self._authors.get(header.author, 0)] += 1
            self.delays_ms.append(now_ms() - header.created_ms)

    async def publish(self) -> None:
        counter = 0
        while True:
            counter += 1
            await self.service.publish(batch(self._number, counter))
            await trio.sleep(PERIOD_S)

    async def ban(self) -> None:
        """What the daemon does with accusations."""
        while True:
            for key, evidence, num in await self.service.accusations():
                self._standings.accuse(key, evidence, now_ms() / 1000, num)
            await self.service.ban(self._standings.banned_now(now_ms() / 1000))
            await trio.sleep(TICK_S)

    async def told(self) -> dict[str, object]:
        """Everything since the last call."""
        found = {
            "heard": dict(self.heard),
            "delays_ms": self.delays_ms,
            "peers": [peer._asdict() for peer in await self.service.peers()],
            "banned": [peer_id_of_key(key) for key in self._standings.banned_now(now_ms() / 1000)],
            "stats": (await self.service.stats()).to_document(),
        }
        self.heard, self.delays_ms = Counter(), []
        return found


async def main(number: int, options: Options, bootstrap: list[str]) -> None:
    """Run until the input ends."""
    node = Node(number, options, bootstrap)
    async with trio.open_nursery() as nursery:
        described = await nursery.start(node.service.run)
        print(json.dumps({"address": described.addresses[0]}), flush=True)
        nursery.start_soon(node.publish)
        nursery.start_soon(node.ban)
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            print(json.dumps(await node.told()), flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    silence_libp2p()
    trio.run(partial(main, int(sys.argv[1]), Options(**json.loads(sys.argv[2])), sys.argv[3:]))
