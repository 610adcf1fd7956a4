"""One node in a namespace: a network service that publishes a batch each half second and says what it knows when asked.

Started as `python -m tests.homes.node NUMBER multicast|silent BOOTSTRAP...`. Its first line is its address; then each line of input
is answered with one line: `{"heard": {author: how many}, "peers": [...], "stats": {...}}`. It counts what was heard since the
last question.
"""

import json
import sys
from collections import Counter
from functools import partial

import trio

from swarmd.clients.events import Accepted, NetworkEvent
from swarmd.protocol.signing import Identity
from swarmd.protocol.wire import named_author
from swarmd.swarm.hardening.quiet_logs import silence_libp2p
from swarmd.swarm.service import NetworkService
from tests.swarm.nodes import MANIFEST, batch, seed

PERIOD_S = 0.5


async def main(number: int, *, local_discovery: bool, bootstrap: list[str]) -> None:
    """Run until the input ends."""
    heard: Counter[int] = Counter()
    authors = {Identity.from_seed(seed(other)).public_key: other for other in range(1, 64)}

    def emit(event: NetworkEvent) -> None:
        if isinstance(event, Accepted):
            heard[authors.get(named_author(event.data, MANIFEST.limits) or b"", 0)] += 1

    service = NetworkService(
        emit,
        identity_seed=seed(number),
        manifest=MANIFEST.to_bytes(),
        listen="/ip4/0.0.0.0/tcp/4810",
        bootstrap=bootstrap,
        local_discovery=local_discovery,
    )
    async with trio.open_nursery() as nursery:
        described = await nursery.start(service.run)
        print(json.dumps({"address": described.addresses[0]}), flush=True)
        nursery.start_soon(_publish, service, number)
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            peers = [peer._asdict() for peer in await service.peers()]
            stats = (await service.stats()).to_document()
            print(json.dumps({"heard": dict(heard), "peers": peers, "stats": stats}), flush=True)
            heard.clear()
        nursery.cancel_scope.cancel()


async def _publish(service: NetworkService, number: int) -> None:
    counter = 0
    while True:
        counter += 1
        await service.publish(batch(number, counter))
        await trio.sleep(PERIOD_S)


if __name__ == "__main__":
    silence_libp2p()
    trio.run(
        partial(main, int(sys.argv[1]), local_discovery=sys.argv[2] == "multicast", bootstrap=sys.argv[3:])
    )
