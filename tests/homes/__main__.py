"""`make homes`: two homes of two nodes and public ones, with routers between them; who hears whom when public nodes come and go.

Prints what each step took, the paths between the nodes and how each looks from outside. Exits 1 where somebody stays unheard.
"""

import argparse
import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.homes.process import Node
from tests.homes.world import MASQUERADE, Machine, World, can_make, world

PATIENCE_S = 90.0
OFFICE = 16
# The least that the mesh wants (`swarmd.swarm.host.DEGREE_LOW`).
MESH_MIN = 5
# Whether the nodes of a home hear each other's multicast, or only the public node can tell them of each other.
HOMES = ("multicast", "silent")
NAMES = {1: "P", 2: "Q", 3: "A1", 4: "A2", 5: "B1", 6: "B2"}


def all_hear(step: str, groups: list[list[Node]]) -> bool:
    """Wait until within each group everybody hears everybody; says how long it took, or who is unheard."""
    began = time.monotonic()
    for group in groups:
        for node in group:
            node.look()  # what came before does not count
    missing = {
        (node.number, other.number)
        for group in groups
        for node in group
        for other in group
        if node is not other
    }
    while missing and time.monotonic() - began < PATIENCE_S:
        time.sleep(0.2)
        for node in {node.number: node for group in groups for node in group}.values():
            heard = node.look()["heard"]
            missing -= {(node.number, int(author)) for author in heard}
    seconds = time.monotonic() - began
    unheard = ", ".join(f"{NAMES[hearer]} not {NAMES[author]}" for hearer, author in sorted(missing))
    print(f"{step:<58} {f'unheard: {unheard}' if missing else f'{seconds:5.1f} s'}", flush=True)
    return not missing


def paths(nodes: list[Node], ids: dict[str, str]) -> None:
    """Who is connected to whom, by which address; and how each looks from outside."""
    for node in nodes:
        seen = node.look()
        rows = [
            f"{ids.get(peer['peer_id'], '?')} {peer['direction'][:3]} {peer['address']}"
            for peer in seen["peers"]
        ]
        outside = seen["stats"]["outside"]
        reachable = {True: "reachable", False: "not reachable", None: "unknown"}[outside["reachable"]]
        tried = f"{outside['num_reached']} of {outside['num_reached'] + outside['num_failed']} got in"
        vain = {
            why: num for why, num in seen["stats"]["traffic"]["dials"].items() if num and why != "connected"
        }
        print(
            f"  {node.name:<3} at {node.host:<13} {reachable}, {tried}, seen at {', '.join(outside['hosts'])}; vain dials {vain}"
        )
        print(f"      {'; '.join(sorted(rows))}")


def nothing_configured(net: World) -> bool:
    """Two machines of one home that were told nothing of each other, nor of anybody."""
    nodes = [
        Node(NAMES[number], number, machine, []) for number, machine in enumerate(net.home(13, 2), start=3)
    ]
    try:
        return all_hear("two at home, no bootstrap", [nodes])
    finally:
        for node in nodes:
            node.kill()


def office(net: World) -> bool:
    """So many machines behind one address, more than a public node takes of one address when it is short of places."""
    machines = net.home(14, OFFICE)
    public = Node("P", 1, net.public(1), [])
    with ThreadPoolExecutor(4) as pool:
        nodes = list(pool.map(lambda n: Node(f"O{n}", 10 + n, machines[n], [public.address]), range(OFFICE)))
    NAMES.update({node.number: node.name for node in nodes})
    try:
        began = time.monotonic()
        while any(node.look()["stats"]["mesh_peers"] < MESH_MIN for node in nodes):
            if time.monotonic() - began > PATIENCE_S:
                print(f"{OFFICE} behind one address: not all have {MESH_MIN} neighbours in the mesh")
                return False
            time.sleep(0.2)
        print(
            f"{f'{OFFICE} behind one address: {MESH_MIN} neighbours each':<58} {time.monotonic() - began:5.1f} s"
        )
        good = all_hear(f"{OFFICE} behind one address: all hear all", [[public, *nodes]])
        mesh = sorted(node.look()["stats"]["mesh_peers"] for node in nodes)
        print(f"  neighbours in the mesh: {mesh}; the public node has {len(public.look()['peers'])} peers")
        return good
    finally:
        for node in [public, *nodes]:
            node.kill()


def scenario(net: World, masquerade: str, home: str) -> bool:
    """All steps; whether all held."""

    def node(number: int, machine: Machine, known: list[str]) -> Node:
        return Node(NAMES[number], number, machine, known, local_discovery=home == "multicast")

    at_p, at_q = net.public(1), net.public(2)
    homes = [net.home(11, 2, masquerade), net.home(12, 2, masquerade)]
    p = node(1, at_p, [])
    bootstrap, nodes = [p.address], [p]
    try:
        for number, machine in enumerate([*homes[0], *homes[1]], start=3):
            nodes.append(node(number, machine, bootstrap))
        a, b = nodes[1:3], nodes[3:5]
        good = [all_hear("five nodes that know one public node", [nodes])]
        ids = {node.peer_id: node.name for node in nodes}
        time.sleep(12)  # knocks take five seconds, and are asked about in the next exchange
        paths(nodes, ids)
        p.kill()
        nodes.remove(p)
        good.append(all_hear("the public node was killed: each home among itself", [a, b]))
        p = node(1, at_p, [])
        nodes.append(p)
        good.append(all_hear("it is back: all hear all", [nodes]))
        q = node(2, at_q, bootstrap)
        nodes.append(q)
        good.append(all_hear("a second public node joins through it", [nodes]))
        time.sleep(12)
        p.kill()
        nodes.remove(p)
        good.append(all_hear("the first was killed: all hear all through the second", [nodes]))
        ids[q.peer_id] = q.name
        paths(nodes, ids)
    finally:
        for node in nodes:
            node.kill()
    return all(good)


def main() -> None:
    """Every kind of router, with and without multicast in the homes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--masquerade", choices=sorted(MASQUERADE), action="append")
    parser.add_argument("--only-office", action="store_true")
    parser.add_argument("--home", choices=HOMES, action="append")
    options = parser.parse_args()
    if not can_make():
        sys.exit(
            "make homes: network namespaces with routers need root, ip and nft (Debian: iproute2, nftables)"
        )
    if options.only_office:
        with world() as net:
            sys.exit(0 if office(net) else 1)
    with world() as net:
        good = [nothing_configured(net)]
    with world() as net:
        good.append(office(net))
    for masquerade, home in itertools.product(
        options.masquerade or sorted(MASQUERADE), options.home or HOMES
    ):
        print(f"\nrouters: {masquerade}; in a home: {home}", flush=True)
        with world() as net:
            good.append(scenario(net, masquerade, home))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
