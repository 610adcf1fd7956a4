"""A small internet in network namespaces: public machines, and homes whose machines share one outside address.

Every public machine and every router has a /24 of its own, as strangers do. All homes use the same private network, as homes do. It
takes root, `ip` and `nft`.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

from tests.bench.lan import Machine
from tests.bench.lan import can_make as can_make_namespaces

# How a router picks the outside port of a connection: the inside one where it is free, or any.
MASQUERADE = {"same-port": "masquerade", "random-port": "masquerade fully-random"}
_HOME = "192.168.1"


def can_make() -> bool:
    """Whether this process may make namespaces with routers."""
    return shutil.which("nft") is not None and can_make_namespaces()


class World:
    """Made by `world`, which also removes it."""

    def __init__(self) -> None:
        self._mark, self._names, self._num_ports = f"swarmd-{os.getpid()}", list[str](), 0
        self._internet = self._namespace("net")
        self._run(self._internet, "ip link add hub type bridge")
        self._run(self._internet, "ip link set hub up")

    def public(self, number: int) -> Machine:
        """A machine that everybody can reach, at 11.0.NUMBER.1."""
        name = self._namespace(f"public{number}")
        self._plug(name, "wan", self._internet, "hub", f"11.0.{number}.1/8")
        return Machine(name, f"11.0.{number}.1")

    def home(self, number: int, num_machines: int, masquerade: str = "same-port") -> list[Machine]:
        """Machines behind one router, which is 11.0.NUMBER.1 outside and lets in only answers."""
        router = self._namespace(f"router{number}")
        self._plug(router, "wan", self._internet, "hub", f"11.0.{number}.1/8")
        self._run(router, "ip link add home type bridge")
        self._run(router, f"ip addr add {_HOME}.1/24 dev home")
        self._run(router, "ip link set home up")
        self._run(router, "sysctl -qw net.ipv4.ip_forward=1")
        for rule in (
            "add table ip nat",
            "add chain ip nat post { type nat hook postrouting priority 100 ; }",
            f"add rule ip nat post oifname wan {MASQUERADE[masquerade]}",
            "add table ip filter",
            "add chain ip filter in { type filter hook input priority 0 ; }",
            "add rule ip filter in iifname wan ct state new drop",
            "add chain ip filter on { type filter hook forward priority 0 ; }",
            "add rule ip filter on iifname wan ct state new drop",
        ):
            self._run(router, f"nft {rule}")
        machines = []
        for index in range(num_machines):
            name, host = self._namespace(f"home{number}m{index}"), f"{_HOME}.{11 + index}"
            self._plug(name, "lan", router, "home", f"{host}/24")
            self._run(name, f"ip route add default via {_HOME}.1")
            machines.append(Machine(name, host))
        return machines

    def close(self) -> None:
        for name in reversed(self._names):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def _namespace(self, name: str) -> str:
        full = f"{self._mark}-{name}"
        self._names.append(full)
        subprocess.run(["ip", "netns", "add", full], check=True)
        self._run(full, "ip link set lo up")
        return full

    def _plug(self, name: str, device: str, into: str, bridge: str, address: str) -> None:
        """A cable from a namespace to a bridge of another."""
        self._num_ports += 1
        port = f"port{self._num_ports}"
        self._run(name, f"ip link add {device} type veth peer name {port} netns {into}")
        self._run(into, f"ip link set {port} master {bridge} up")
        self._run(name, f"ip addr add {address} dev {device}")
        self._run(name, f"ip link set {device} up")

    def _run(self, name: str, words: str) -> None:
        subprocess.run(["ip", "netns", "exec", name, *words.split()], check=True, capture_output=True)


@contextlib.contextmanager
def world() -> Iterator[World]:
    """An internet with nobody in it; nothing of it is left behind."""
    made = World()
    try:
        yield made
    finally:
        made.close()
