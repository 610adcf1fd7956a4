"""Bootstraps that let everybody in and never say a word."""

import trio
from multiaddr import Multiaddr

from swarmd.config.network_section import NetworkLimits
from swarmd.swarm.addresses import parse_listen
from swarmd.swarm.host import build
from tests.attack.ring import Ring


async def mute_bootstrap(ring: Ring) -> None:
    """Two of them: one is silent from TCP on; the other finishes Noise and yamux, and then opens and answers no stream."""
    silent_port, mute_port = ring.listen
    address = f"/ip4/127.0.0.1/tcp/{mute_port}"
    stack = build(ring.identity_seed(0), parse_listen(address), None, NetworkLimits(), ring.manifest.topic)
    stack.host.get_network().set_stream_handler(_say_nothing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_tcp, lambda stream: _hold(ring, stream), silent_port)
        async with stack.host.run(listen_addrs=[Multiaddr(address)]):
            while True:
                ring.counted["held"] = ring.counted["silent"] + len(stack.host.get_network().connections)
                await trio.sleep(0.5)


async def _say_nothing(stream: object) -> None:
    await trio.sleep_forever()


async def _hold(ring: Ring, stream: trio.SocketStream) -> None:
    ring.counted["dialled"] += 1
    ring.counted["silent"] += 1
    try:
        while await stream.receive_some(4096):
            pass
    except trio.BrokenResourceError:
        pass
    finally:
        ring.counted["silent"] -= 1
