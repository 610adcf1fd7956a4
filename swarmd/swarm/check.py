"""Whether peers answer at their addresses, tried from a host of its own with an identity of the moment, beside any node."""

import os
from typing import NamedTuple

import trio
from libp2p.peer.id import ID

from swarmd.config.network_section import NetworkLimits
from swarmd.swarm.addresses import ListenAddress, PeerAddress
from swarmd.swarm.dial import Dialled, dial
from swarmd.swarm.exchange import BadFrame, ask
from swarmd.swarm.host import build

AT_ONCE_MAX = 16
# Only to be there: nobody is told of it, and nobody dials it.
_LISTEN = ListenAddress("127.0.0.1", 0)


class Checked(NamedTuple):
    """How a dial ended and how long it took. `agent` is what the peer calls itself; empty where it speaks no peer exchange.

    `num_known`: peers that it named.
    """

    address: str
    result: str
    seconds: float
    agent: str = ""
    num_known: int = 0


async def check(addresses: list[PeerAddress]) -> list[Checked]:
    """One dial of each address, in their order."""
    stack = build(os.urandom(32), _LISTEN, None, NetworkLimits(), "none")
    found: dict[str, Checked] = {}
    limiter = trio.CapacityLimiter(AT_ONCE_MAX)

    async def one(address: PeerAddress) -> None:
        async with limiter:
            began = trio.current_time()
            result = await dial(stack.host, address)
            seconds, agent, num_known = trio.current_time() - began, "", 0
            if result is Dialled.CONNECTED:
                try:
                    reply = await ask(stack.host, ID.from_string(address.peer_id), [])
                    agent, num_known = reply.agent, len(reply.addresses)
                except BadFrame:
                    pass
            found[address.text] = Checked(address.text, result.value, seconds, agent, num_known)

    async with stack.running(), trio.open_nursery() as nursery:
        for address in addresses:
            nursery.start_soon(one, address)
    return [found[address.text] for address in addresses]
