"""The local port of a real node, under what web pages and other users can send to it."""

import os
import resource
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from swarmd.experiment.swarms.local_swarm import LocalNode
from tests.control.nasty import HOSTS, WHOLE, request_of
from tests.e2e.watch import status, until

NUM_HALF_OPEN = 1200
# What many systems give a process; the node may not need it.
DESCRIPTORS = 1024


@pytest.fixture
def port(node: LocalNode) -> int:
    """The port of a node at work that has as many descriptors as are usual."""
    assert node.process is not None
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    return int(urlsplit(status(node)["metrics"]).port or 0)


def send(port: int, data: bytes) -> bytes:
    """The first bytes of the answer to `data`, which is all that is sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, suppress(ConnectionError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(100)
    return b""


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return bytes(answer.read())


def answers(node: LocalNode, port: int) -> bool:
    """Whether the node answers probes, Prometheus and its operator's command."""
    command = [sys.executable, "-m", "swarmd", "status", "--data-dir", str(node.data_dir.root)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 0, told.stderr
    return get(port, "/healthz") == b"ok\n" and b"swarmd_train_rounds_total" in get(port, "/metrics")


@pytest.fixture
def lives_on(node: LocalNode) -> Iterator[None]:
    """The node is the same afterwards, without a restart of a child, and does another round."""
    before = status(node)
    yield
    assert node.running
    after = until(lambda: (now := status(node)).get("round", 0) > before["round"] and now, "a round", node)
    assert (after["pid"], after["workers"]) == (before["pid"], before["workers"])
    assert "Traceback" not in node.output()


@pytest.mark.usefixtures("lives_on")
def test_one_request_of_a_web_page_ends_nothing(port: int) -> None:
    assert send(port, request_of(b"//[")).startswith(b"HTTP/1.1 404")


@pytest.mark.usefixtures("lives_on")
def test_no_request_ends_anything(node: LocalNode, port: int) -> None:
    for data in WHOLE:
        send(port, data)
    assert answers(node, port)
    assert b'connections_total{end="failed",socket="tcp"} 0.0' in get(port, "/metrics")


@pytest.mark.usefixtures("lives_on")
@pytest.mark.parametrize("host", HOSTS[3:])
def test_a_foreign_host_is_told_nothing(port: int, host: bytes) -> None:
    assert send(port, request_of(b"/metrics", host=host))[9:12] in (b"421", b"400")


@pytest.mark.usefixtures("lives_on")
def test_half_open_connections_keep_nobody_from_an_answer(node: LocalNode, port: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * NUM_HALF_OPEN), hard))
    assert node.process is not None
    with ExitStack() as crowd:
        for number in range(NUM_HALF_OPEN):
            one = crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            with suppress(ConnectionError):
                one.sendall(b"GET /met"[: number % 9])
        assert answers(node, port)
        assert len(os.listdir(Path("/proc") / str(node.process.pid) / "fd")) < DESCRIPTORS / 4
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert b'connections_total{end="evicted",socket="tcp"}' in get(port, "/metrics")
