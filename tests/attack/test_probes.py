"""Probes ask again and again, and notice who does not answer."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from swarmd.experiment.swarms.local_swarm import LocalNode, free_port
from swarmd.files.datadir import DataDir
from swarmd.protocol.signing import Identity
from tests.attack.probes import Probes


class Ok(BaseHTTPRequestHandler):
    """Answers everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, *words: object) -> None:
        """Nothing."""


def node(root: Path) -> LocalNode:
    return LocalNode("node-0", DataDir(root), Identity.from_seed(b"n" * 32), 1)


def test_who_does_not_answer_is_named(tmp_path: Path) -> None:
    with Probes([node(tmp_path)], [free_port()]) as probes:
        pass
    assert probes.found.unanswered == ["node-0 /healthz", "node-0 /metrics", "node-0 /v1/status"]
    assert probes.found.num == 3


def test_who_answers_is_not_named(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Ok) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Probes([node(tmp_path)], [server.server_port]) as probes:
            pass
        server.shutdown()
    assert probes.found.unanswered == ["node-0 /v1/status"]
