"""Machines with addresses of their own in one /24: network namespaces on a bridge. Needs root and `ip`."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

NETWORK = "10.77.0"


def can_make() -> bool:
    """Whether this process may make network namespaces."""
    if os.getuid() or shutil.which("ip") is None:
        return False
    name = f"swarmd-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return made


class Machine:
    """A namespace with one address."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address

    @property
    def inside(self) -> list[str]:
        """What to put before a command that is to run there."""
        return ["ip", "netns", "exec", self.name]

    def num_bytes_sent(self) -> int:
        """Bytes that left it so far, headers of Ethernet, IP and TCP included."""
        path = Path("/sys/class/net/lan/statistics/tx_bytes")
        return int(subprocess.run([*self.inside, "cat", path], check=True, capture_output=True).stdout)


@contextlib.contextmanager
def machines(num: int) -> Iterator[list[Machine]]:
    """So many machines that reach one another; nothing of them is left behind."""
    mark = f"swarmd-{os.getpid()}"
    hub, found = (
        f"{mark}-hub",
        [Machine(f"{mark}-{number}", f"{NETWORK}.{number}") for number in range(1, num + 1)],
    )
    try:
        _ip(f"netns add {hub}")
        _ip(f"-n {hub} link add hub type bridge")
        _ip(f"-n {hub} link set hub up")
        for number, machine in enumerate(found, start=1):
            _ip(f"netns add {machine.name}")
            _ip(f"-n {machine.name} link add lan type veth peer name port{number} netns {hub}")
            _ip(f"-n {hub} link set port{number} master hub up")
            _ip(f"-n {machine.name} addr add {machine.address}/24 dev lan")
            _ip(f"-n {machine.name} link set lan up")
            _ip(f"-n {machine.name} link set lo up")
        yield found
    finally:
        for name in [*(machine.name for machine in found), hub]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)
