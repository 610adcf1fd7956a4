"""`swarmd bootstrap`: the list, and what comes of dialling it."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from swarmd.cli.main import swarmd
from swarmd.errors import ConfigError
from tests.swarm.nodes import Node

PEER_ID = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo"
ADDRESS = f"/ip4/1.2.3.4/tcp/4810/p2p/{PEER_ID}"
OTHER = f"/dns4/node.example/tcp/4810/p2p/{PEER_ID}"


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(swarmd, ["bootstrap", *arguments, "--data-dir", str(folder / "node")])


def test_what_is_added_is_listed_until_it_is_removed(tmp_path: Path) -> None:
    assert run(tmp_path).output.startswith("no bootstrap")
    assert run(tmp_path, "add", ADDRESS).output == f"added {ADDRESS}\n"
    assert run(tmp_path, "add", ADDRESS).output == f"already there: {ADDRESS}\n"
    (node_line,) = [line for line in run(tmp_path, "list").output.splitlines() if ADDRESS in line]
    assert node_line.endswith("bootstrap.txt")
    assert run(tmp_path, "rm", PEER_ID).output == "removed 1\n"
    assert run(tmp_path).output.startswith("no bootstrap")


def test_those_of_the_settings_are_listed_with_where_they_stand(tmp_path: Path) -> None:
    run(tmp_path, "add", ADDRESS)
    said = run(tmp_path, "list", "--json", "--bootstrap", OTHER)
    assert json.loads(said.output) == {
        "schema": 1,
        "bootstrap": [
            {"address": OTHER, "from": "settings"},
            {"address": ADDRESS, "from": str(tmp_path / "node" / "bootstrap.txt")},
        ],
    }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["add", "hello"], "is not a peer address"),
        (["add", "/ip4/1.2.3.4/tcp/4810"], "/p2p/ part"),
        (["rm", PEER_ID], "is not in"),
        (["check"], "no bootstrap to check"),
        (["check", "hello"], "is not a peer address"),
        (["list", "--bootstrap", "hello"], "is not a peer address"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, arguments: list[str], text: str) -> None:
    said = run(tmp_path, *arguments)
    assert isinstance(said.exception, ConfigError)
    assert text in str(said.exception)
    assert not (tmp_path / "node" / "bootstrap.txt").exists()


@contextmanager
def peer() -> Iterator[str]:
    """A node in another thread, and its address."""
    ready, addresses, scope = threading.Event(), list[str](), trio.CancelScope()

    async def serve() -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                addresses.append((await Node(1).start(nursery)).address)
                ready.set()

    token = list[trio.lowlevel.TrioToken]()

    async def main() -> None:
        token.append(trio.lowlevel.current_trio_token())
        await serve()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert ready.wait(60)
        yield addresses[0]
    finally:
        trio.from_thread.run_sync(scope.cancel, trio_token=token[0])
        thread.join()


def test_a_check_says_who_answers_and_why_others_do_not(tmp_path: Path) -> None:
    with peer() as address, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refused = f"/ip4/127.0.0.1/tcp/{closed.getsockname()[1]}/p2p/{PEER_ID}"
        stale = address.rpartition("/")[0] + f"/{PEER_ID}"
        said = run(tmp_path, "check", "--json", address, refused, stale)
        assert said.exit_code == 0
        results = {row["address"]: row["result"] for row in json.loads(said.output)["checked"]}
        assert results == {address: "connected", refused: "refused", stale: "wrong_peer_id"}
        shown = run(tmp_path, "check", address, refused).output.splitlines()
        assert shown[1].split()[1] == "connected"
        assert "swarmd/" in shown[1]
        assert "nobody listens there" in shown[2]
        assert run(tmp_path, "check", refused).exit_code == 1
