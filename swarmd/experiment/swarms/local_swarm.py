"""Several real nodes on this machine: separate processes, identities, ports and directories; the first is the bootstrap.

Used by experiments over real nodes, the benchmarks and the end-to-end tests. Leaving the context leaves no process behind.
"""

import contextlib
import itertools
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from swarmd.control.client import ask
from swarmd.errors import SwarmdError
from swarmd.experiment.cell import identity_seed
from swarmd.files.datadir import DataDir
from swarmd.files.owned import make_own
from swarmd.node.own import make_identity
from swarmd.protocol.signing import Identity

# A node that is asked to stop ends its round and evaluates; on two busy cores that takes seconds.
STOP_S = 60.0
# Below the ports that the system gives to outgoing connections; another process hardly names the same ones.
PORTS = range(10_000, 32_768)
_ports = itertools.cycle(random.SystemRandom().sample(PORTS, 1000))


@dataclass
class LocalNode:
    """One node: its directory, identity and port, and its process while it runs."""

    name: str
    data_dir: DataDir
    identity: Identity
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Its multiaddr, for others to join through."""
        return f"/ip4/127.0.0.1/tcp/{self.port}/p2p/{self.identity.peer_id}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask(self, target: str, *, method: str = "GET") -> Any:
        """The daemon's answer, or None while it does not answer."""
        try:
            return ask(self.data_dir.socket, target, method=method, timeout_s=5)
        except (SwarmdError, OSError):
            return None

    def output(self) -> str:
        """What the daemon printed, with what it said on stderr."""
        path = self.data_dir.root / "output.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


@dataclass
class LocalSwarm:
    """A context that holds `num_nodes` nodes below `root`.

    Attributes:
        arguments: of every `swarmd start`.
        arguments_of: further ones of single nodes, by number.
        environment_of: what is changed for single nodes in this process's own environment.
    """

    root: Path
    num_nodes: int
    seed: int = 0
    arguments: Sequence[str] = ()
    arguments_of: Mapping[int, Sequence[str]] = field(default_factory=dict)
    environment_of: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    nodes: list[LocalNode] = field(default_factory=list)

    def __enter__(self) -> Self:
        for number in range(self.num_nodes):
            name = f"node-{number}"
            directory = self.root / name
            make_own(directory)
            data_dir = DataDir(directory)
            if not data_dir.identity.exists():
                make_identity(data_dir, identity_seed(self.seed, number))
            identity = Identity.from_seed(data_dir.identity.read_bytes())
            self.nodes.append(LocalNode(name, data_dir, identity, free_port()))
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop(evaluate=False, patience_s=5.0 if exception[0] else STOP_S)

    def start(self, *numbers: int, extra: Sequence[str] = ()) -> None:
        """Start these nodes (all, when none is named)."""
        for number in numbers or range(self.num_nodes):
            node = self.nodes[number]
            bootstrap = [] if number == 0 else ["--bootstrap", self.nodes[0].address]
            command = [sys.executable, "-m", "swarmd", "start", "--data-dir", str(node.data_dir.root)]
            command += ["--listen", f"/ip4/127.0.0.1/tcp/{node.port}", "--metrics-port", "0"]
            command += [*bootstrap, *self.arguments, *self.arguments_of.get(number, ()), *extra]
            # how this machine's own nodes are configured is none of their business
            environment = {key: value for key, value in os.environ.items() if not key.startswith("SWARMD_")}
            with (node.data_dir.root / "output.log").open("ab") as output:
                node.process = subprocess.Popen(
                    command,
                    env={**environment, **self.environment_of.get(number, {})},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C is ours to pass on
                )

    def stop(self, *, evaluate: bool, patience_s: float = STOP_S) -> None:
        """End all nodes in order, then for certain."""
        started = [(node, node.process) for node in self.nodes if node.process is not None]
        for node, process in started:
            if node.running and node.ask(f"/v1/stop?evaluate={int(evaluate)}", method="POST") is None:
                process.terminate()
        deadline = time.monotonic() + patience_s
        for _, process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            process.kill()
            process.wait()


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now.

    The system gives ports from `PORTS.stop` on to outgoing connections, at any moment before the node listens.
    """
    while True:
        port = next(_ports)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
