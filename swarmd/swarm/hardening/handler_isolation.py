"""T2: an exception in any stream handler (identify, ping, pubsub, ours) climbs through the connection's nursery; the host ends."""

import trio
from libp2p.abc import IHost, INetStream

from swarmd.swarm.hardening.counters import Counters, contained


def isolate_handlers(host: IHost, counters: Counters) -> None:
    """Wrap the one function through which every protocol's inbound streams go; a failing handler costs its own stream only.

    Counts `handler_error`.
    """
    inner = host.get_network().common_stream_handler

    async def isolated(stream: INetStream) -> None:
        block = contained(counters, "handler_error")
        with block:
            await inner(stream)
        if block.failed:
            # The stream may be broken already, and a mute peer must not hold the task.
            with contained(counters, "close_error"), trio.move_on_after(1, shield=True):
                await stream.reset()

    host.get_network().set_stream_handler(isolated)
