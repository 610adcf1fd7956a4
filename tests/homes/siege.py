"""`make siege`: a public node under squatters and floods of control messages.

Two honest nodes talk through it and through nobody else. Six peers flood it; then squatters of sixteen networks hold all places of
it when newcomers come. Prints how late honest messages were, who was banned and how long newcomers waited; exits 1 where honest
messages are lost, an offender is not banned or a newcomer stays outside. Times depend on the machine and are only printed.
"""

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.homes.attacker import KINDS
from tests.homes.node import PERIOD_S
from tests.homes.process import Node
from tests.homes.world import Machine, World, can_make, world

SQUATTERS, NETWORKS = 112, 16
FLOODERS = 6
FLOOD_S, CALM_S = 15.0, 8.0
NEWCOMERS = 3
PATIENCE_S = 60.0


@contextlib.contextmanager
def attackers(kind: str, machines: list[Machine], each: int, target: Node, *, first: int) -> Iterator[None]:
    """Hostile processes, one a machine; `first` is the number of their first identity."""
    processes = []
    try:
        for index, machine in enumerate(machines):
            words = [kind, str(first + index * each), str(each), target.address]
            processes.append(
                subprocess.Popen([*machine.inside, sys.executable, "-m", "tests.homes.attacker", *words])
            )
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def newcomers(net: World, public: Node) -> bool:
    """Whether newcomers get in while squatters hold all places."""
    good = True
    machines = [net.public(100 + number) for number in range(NETWORKS)]
    with attackers("squat", machines, SQUATTERS // NETWORKS, public, first=5000):
        until = time.monotonic() + PATIENCE_S
        while len(public.look()["peers"]) < 100 and time.monotonic() < until:
            time.sleep(1)
        print(f"{len(public.look()['peers'])} connections to the public node, most of them squatters'")
        for number in range(NEWCOMERS):
            began = time.monotonic()
            node = Node("newcomer", 20 + number, net.public(20 + number), [public.address])
            up = time.monotonic()
            heard: set[str] = set()
            while not {"11", "12"} <= heard and time.monotonic() - up < PATIENCE_S:
                time.sleep(0.1)
                heard |= set(node.look()["heard"])
            inside = {"11", "12"} <= heard
            waited = time.monotonic() - up
            print(
                f"  newcomer {number + 1}: {f'heard both after {waited:.1f} s' if inside else 'stayed outside'}"
                f" (its process took {up - began:.1f} s to start)"
            )
            good &= inside
            node.kill()
        refused = public.look()["stats"]["traffic"]["refused"]
        print(f"  turned away or out at the public node: {refused}")
    return good


def flooded(net: World, public: Node, honest: list[Node]) -> bool:
    """Whether honest messages come through, and those who flood are banned."""
    good = True
    for row, kind in enumerate(["", *(kind for kind in KINDS if kind != "squat")]):
        machines = [net.public(200 + 10 * row + number) for number in range(FLOODERS)] if kind else []
        time.sleep(CALM_S)
        for node in honest:
            node.look()
        before = set(public.look()["banned"])
        with attackers(kind, machines, 1, public, first=1000 + 10 * row):
            num, delays, banned = 0, list[int](), set[str]()
            began = time.monotonic()
            while (lasted_s := time.monotonic() - began) < FLOOD_S or (
                len(banned) < len(machines) and lasted_s < PATIENCE_S
            ):
                time.sleep(0.5)
                for node in honest:
                    seen = node.look()
                    delays += seen["delays_ms"]
                    num += sum(count for author, count in seen["heard"].items() if author in ("11", "12"))
                banned |= set(public.look()["banned"]) - before
        counts = public.look()["stats"]
        kinds = {
            name: counts["gossip"][name] for name in ("rpc_out_of_bounds", "control_flood", "graylisted")
        }
        p99 = statistics.quantiles(delays, n=100)[98]
        expected = 2 * lasted_s / PERIOD_S
        print(
            f"{kind or 'nobody':<14} honest messages {num} of about {expected:.0f}, p50 {statistics.median(delays):.0f} ms,"
            f" p99 {p99:.0f} ms; banned {len(banned)} of {len(machines)} in {lasted_s:.0f} s; so far {kinds}",
            flush=True,
        )
        good &= num > 0.8 * expected and len(banned) == len(machines)
        good &= not banned & {node.peer_id for node in honest}
    return good


def main() -> None:
    """Both, on one public node."""
    if not can_make():
        sys.exit(
            "make siege: network namespaces with routers need root, ip and nft (Debian: iproute2, nftables)"
        )
    with world() as net:
        public = Node("public", 10, net.public(1), [], peers_wanted=0)
        honest = [
            Node(f"honest {number}", number, net.public(number), [public.address], peers_wanted=0)
            for number in (11, 12)
        ]
        try:
            good = [flooded(net, public, honest), newcomers(net, public)]
        finally:
            for node in [public, *honest]:
                node.kill()
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
