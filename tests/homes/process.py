"""The node of `tests.homes.node` on a machine, from outside."""

import json
import subprocess
import sys
from typing import Any

from tests.bench.lan import Machine


class Node:
    """A node's process. `options` are `tests.homes.node.Options`."""

    def __init__(
        self, name: str, number: int, machine: Machine, bootstrap: list[str], **options: object
    ) -> None:
        words = [sys.executable, "-m", "tests.homes.node", str(number), json.dumps(options), *bootstrap]
        self._process = subprocess.Popen(
            [*machine.inside, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.name, self.number, self.host = name, number, machine.address
        self.peer_id = str(self._answer()["address"]).rsplit("/", 1)[1]
        self.address = f"/ip4/{machine.address}/tcp/4810/p2p/{self.peer_id}"

    def look(self) -> dict[str, Any]:
        """What happened since the last look."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended")
        return dict(json.loads(line))
