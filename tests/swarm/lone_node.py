"""A node in its own process, to be killed: prints what it is as one JSON line, then serves."""

import json
import sys

import trio

from swarmd.swarm.service import NetworkService
from tests.swarm.nodes import MANIFEST, seed


async def main(port: str, *bootstrap: str) -> None:
    """Serve as node 1 on a port, 0 for any."""
    service = NetworkService(
        lambda event: None,
        identity_seed=seed(1),
        manifest=MANIFEST.to_bytes(),
        listen=f"/ip4/127.0.0.1/tcp/{port}",
        bootstrap=list(bootstrap),
    )
    async with trio.open_nursery() as nursery:
        print(json.dumps((await nursery.start(service.run))._asdict()), flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
