"""A process of attackers: `python -m tests.attack.hostile` reads its orders as one JSON line and goes on until it is ended.

Prints once a second, as one JSON line, what each attack counted so far and the CPU it took. The harness ends it.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

import trio

from swarmd.protocol.manifest import load_manifest
from swarmd.swarm.hardening.quiet_logs import silence_libp2p
from tests.attack.deeds import DEEDS
from tests.attack.ring import Ring

REPORT_S = 1.0


async def serve(rings: list[Ring]) -> None:
    """Run all attacks side by side."""
    async with trio.open_nursery() as nursery:
        for ring in rings:
            nursery.start_soon(_persist, ring)
        while True:
            say(rings)
            await trio.sleep(REPORT_S)


async def _persist(ring: Ring) -> None:
    """Run one attack; one that fails begins again, as an attacker would."""
    while True:
        try:
            await DEEDS[ring.name].run(ring)
        except Exception as error:  # a victim's refusal can come out of the library as anything
            ring.counted["began again"] += 1
            print(f"{ring.name}: {error!r}", file=sys.stderr, flush=True)
        await trio.sleep(1)


def say(rings: list[Ring]) -> None:
    """One line for the harness."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    counted = {ring.name: dict(ring.counted) for ring in rings}
    print(json.dumps({"cpu_s": usage.ru_utime + usage.ru_stime, "counted": counted}), flush=True)


def rings_of(orders: dict[str, Any]) -> list[Ring]:
    """One ring for each attack that is ordered."""
    manifest = load_manifest(orders["manifest"])
    rings: list[Ring] = []
    for name in orders["names"]:
        ring = Ring(
            name=name,
            seed=orders["seed"],
            manifest=manifest,
            victims=orders["victims"],
            markers=Path(orders["markers"]),
            port=orders["port"],
            listen=orders["listen"],
            local_ports=orders["local_ports"],
            in_company=orders["in_company"],
            report=lambda: say(rings),
        )
        rings.append(ring)
    return rings


def main() -> None:
    """Read the orders and obey."""
    silence_libp2p()
    trio.run(serve, rings_of(json.loads(sys.stdin.readline())))


if __name__ == "__main__":
    main()
