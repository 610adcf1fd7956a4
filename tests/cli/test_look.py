"""`status`, `peers`, `id`, `stop`, `healthcheck` against a daemon that answers, and against one that does not."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from swarmd.cli.look import duration, number, peers_table, sparkline, trust_line
from swarmd.cli.main import swarmd
from swarmd.clients.network import Outside
from swarmd.control import client
from swarmd.errors import NotRunning, SwarmdError
from swarmd.loops.shown import BufferShown
from swarmd.node.problems import Problem
from swarmd.node.status import id_document, peers_document, status_document
from swarmd.printable import printable
from tests.cli.fake_daemon import Answers, fake_daemon
from tests.loops.fakes import MS, a_round, network_stats, peer_row
from tests.node.test_status import ABOUT, UP, progress, with_peers

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\n\u202e\u200b\x00\x9b31m"


NOTHING = {"rollouts_held": 0, "rollouts_used": 0, "standing": "new"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(swarmd, list(arguments))


def ask(folder: Path, answers: Answers, *arguments: str) -> Result:
    """The result of a command on a node that answers so."""
    with fake_daemon(folder, answers):
        return run(*arguments, "--data-dir", str(folder))


def status(**changes: Any) -> dict[str, Any]:
    """A node in its second round."""
    at = with_peers()
    at.round = 2
    at.history.rounds.extend([a_round(reward_own=0.25), a_round(reward_external=0.5, num_external=3)])
    at.shown.buffer = BufferShown(7, 4, 2**20, {"b": 7})
    at.history.used_by_author = {"b": 3}
    at.history.evaluations.append({"round": 0, "mean": 0.1, "standard_error": 0.01})
    return {**status_document(ABOUT, at, UP, MS + 3_700_000), **changes}


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(swarmd.commands))], ids=str)
def test_every_command_explains_itself(command: list[str]) -> None:
    said = run(*command, "--help")
    assert said.exit_code == 0
    assert said.output.startswith("Usage:")
    assert len(said.output.splitlines()) > 3


def test_the_status_fits_on_one_screen(tmp_path: Path) -> None:
    said = ask(tmp_path, {"GET /v1/status": (200, status())}, "status")
    assert said.exit_code == 0
    lines = said.output.splitlines()
    assert len(lines) <= 24
    assert lines[0].endswith("running 1 h 1 m · pid 1 · round 2 · starting")
    for text in (
        "Reward   own 0.375 ▅█   external 0.500",
        "Held-out 0.100 ± 0.010",
        "1.5 external got",
        "2 peers",
        "Health   ok",
    ):
        assert text in said.output


@pytest.mark.parametrize(
    ("reachable", "said"),
    [
        (True, "2 peers · can be reached from outside at 1.2.3.4"),
        (False, "2 peers · cannot be reached from outside at 1.2.3.4"),
        (None, "2 peers · scorer"),
    ],
)
def test_the_status_says_whether_strangers_can_connect(
    tmp_path: Path, reachable: bool | None, said: str
) -> None:
    document = status()
    document["network"]["stats"] = network_stats(outside=Outside(reachable, ("1.2.3.4",), 1, 0)).to_document()
    assert said in ask(tmp_path, {"GET /v1/status": (200, document)}, "status").output


def test_the_status_of_a_node_that_has_just_started(tmp_path: Path) -> None:
    document = status_document(ABOUT, progress(), UP, MS, [Problem("no_peers", "None.", "Wait.")])
    said = ask(tmp_path, {"GET /v1/status": (200, document)}, "status")
    assert said.exit_code == 0
    assert "own -    external -" in said.output
    assert "Health   ! no_peers" in said.output


def test_a_warning_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    warning = {"code": "checkpoint_failing", "text": HOSTILE, "fix": "make room"}
    said = ask(tmp_path, {"GET /v1/status": (200, status(health=[warning]))}, "status")
    assert all(line.isprintable() for line in said.output.splitlines())
    assert "make room" in said.output


@pytest.mark.parametrize(
    ("command", "target"), [("status", "/v1/status"), ("peers", "/v1/peers"), ("id", "/v1/id")]
)
def test_programs_get_the_document_as_it_is(tmp_path: Path, command: str, target: str) -> None:
    document = {"peers": [peer_row(HOSTILE)], "number": 1.5}
    said = ask(tmp_path, {f"GET {target}": (200, document)}, command, "--json")
    assert (said.exit_code, json.loads(said.output)) == (0, document)
    assert all(line.isprintable() for line in said.output.splitlines())


def test_peers_are_a_table(tmp_path: Path) -> None:
    said = ask(
        tmp_path, {"GET /v1/peers": (200, peers_document(with_peers(), lambda peer_id: "proven"))}, "peers"
    )
    assert said.exit_code == 0
    head, first, *_ = said.output.splitlines()
    assert head.startswith("peer id  dir  rtt ms  standing  accepted  ignored  rejected  held  used  agent")
    assert first.split() == ["a", "out", "2", "proven", *"00000", "swarmd/0", "/ip4/127.0.0.1/tcp/1"]


def test_nobody_is_said_to_be_there(tmp_path: Path) -> None:
    said = ask(tmp_path, {"GET /v1/peers": (200, {"peers": []})}, "peers")
    assert (said.exit_code, said.output) == (0, "no peers\n")


@pytest.mark.parametrize("column", ["peer_id", "agent", "address", "direction", "standing"])
def test_a_peer_cannot_write_on_the_terminal(column: str) -> None:
    row = {**peer_row("a"), **NOTHING, column: HOSTILE}
    lines = peers_table([row, row]).splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_a_peer_that_says_little_is_a_row_too() -> None:
    row = {**peer_row("a", rtt_s=None, agent="", address=None), **NOTHING}
    assert peers_table([row]).splitlines()[1].split() == ["a", "out", "-", "new", *"00000", "-", "-"]


@pytest.mark.parametrize("trust", [{}, {"num_authors": 9, "num_proven": 3, "num_banned": 0}])
def test_while_nobody_is_banned_and_nothing_dropped_there_is_nothing_to_say(trust: dict[str, Any]) -> None:
    assert trust_line(trust) == ""


def test_bans_and_drops_are_one_line(tmp_path: Path) -> None:
    trust = {"num_authors": 9, "num_proven": 3, "num_banned": 1, "dropped": {"cpu": 2, "banned": 7}}
    said = ask(tmp_path, {"GET /v1/status": (200, status(trust=trust))}, "status")
    expected = "Trust    3 of 9 authors proven · 1 banned · dropped unscored: 7 for banned, 2 for cpu"
    assert expected in said.output.splitlines()


def test_a_long_string_is_cut() -> None:
    assert len(printable("x" * 10_000)) == 100


def test_the_id_is_what_others_need(tmp_path: Path) -> None:
    said = ask(tmp_path, {"GET /v1/id": (200, id_document(ABOUT))}, "id")
    assert said.exit_code == 0
    assert "address     /ip4/127.0.0.1/tcp/4810/p2p/12D3KooWme" in said.output.splitlines()


@pytest.mark.parametrize(("arguments", "query"), [([], "evaluate=0"), (["--evaluate"], "evaluate=1")])
def test_a_stop_is_asked_for_once(tmp_path: Path, arguments: list[str], query: str) -> None:
    with fake_daemon(tmp_path, {f"POST /v1/stop?{query}": (200, {"stopping": True})}) as asked:
        said = run("stop", *arguments, "--data-dir", str(tmp_path))
    assert said.exit_code == 0
    assert asked == [f"POST /v1/stop?{query}"]


@pytest.mark.parametrize(
    ("code", "exit_code", "last"),
    [("stalled", 1, "not healthy"), ("no_peers", 0, "healthy"), (None, 0, "healthy")],
)
def test_a_script_learns_whether_the_node_is_well(
    tmp_path: Path, code: str | None, exit_code: int, last: str
) -> None:
    found = [Problem(code, "It is so.", "Mend it.").to_document()] if code else []
    said = ask(tmp_path, {"GET /v1/status": (200, status(health=found))}, "healthcheck")
    assert said.exit_code == exit_code
    assert said.output.splitlines() == [*([f"{code}: It is so. Mend it."] if code else []), last]


@pytest.mark.parametrize("command", ["status", "peers", "id", "stop", "healthcheck"])
def test_without_a_node_there_is_nothing_to_ask(tmp_path: Path, command: str) -> None:
    said = run(command, "--data-dir", str(tmp_path))
    assert isinstance(said.exception, NotRunning)
    assert said.exception.exit_code == 3
    assert str(tmp_path) in str(said.exception)


def test_a_socket_nobody_listens_on_is_no_node(tmp_path: Path) -> None:
    with fake_daemon(tmp_path, {}):
        pass
    assert isinstance(run("status", "--data-dir", str(tmp_path)).exception, NotRunning)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Len", b"what?\r\n\r\n"])
def test_a_daemon_that_dies_while_it_answers(tmp_path: Path, answer: bytes) -> None:
    said = ask(tmp_path, {"GET /v1/status": answer}, "status")
    assert isinstance(said.exception, SwarmdError)


def test_an_answer_without_end_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_BYTES_MAX", 1000)
    said = ask(tmp_path, {"GET /v1/status": b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1001}, "status")
    assert isinstance(said.exception, SwarmdError)
    assert "longer than 1000 bytes" in str(said.exception)


def test_an_answer_nested_without_end_is_an_error(tmp_path: Path) -> None:
    said = ask(tmp_path, {"GET /v1/status": b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000}, "status")
    assert isinstance(said.exception, SwarmdError)


DRIPS_MAX = 600


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_an_answer_that_drips_is_waited_for_once(tmp_path: Path, head: bytes) -> None:
    with dripping(tmp_path / "control.sock", head) as drips:
        with pytest.raises(SwarmdError, match="did not answer within"):
            client.ask(tmp_path / "control.sock", "/v1/status", timeout_s=0.3)
        assert len(drips) < DRIPS_MAX


@contextmanager
def dripping(path: Path, head: bytes) -> Iterator[list[bytes]]:
    """Whoever asks gets `head`, and then a byte every 0.1 s, which is noted, for a minute."""
    done, drips = threading.Event(), list[bytes]()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(head)
            while len(drips) < DRIPS_MAX and not done.wait(0.1):
                connection.sendall(b"1")
                drips.append(b"1")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield drips
        finally:
            done.set()
            thread.join()


def test_who_listens_in_the_nodes_place_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    document = {"peer_id": "\x1b[2J", "public_key": "", "swarm": "\u202e", "addresses": []}
    said = ask(tmp_path, {"GET /v1/id": (200, document)}, "id")
    assert "\x1b" not in said.output
    assert "\u202e" not in said.output


def test_a_refusal_is_passed_on(tmp_path: Path) -> None:
    said = ask(tmp_path, {"GET /v1/status": (405, {"error": "method not allowed"})}, "status")
    assert isinstance(said.exception, SwarmdError)
    assert "405" in str(said.exception)


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert isinstance(run("status", "--data-dir", str(tmp_path / "file")).exception, SwarmdError)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (61, "1 m 1 s"), (3600, "1 h 0 m"), (90_000, "25 h 0 m")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [([], ""), ([0.0], "▁"), ([0.0, 0.0], "▁▁"), ([0.0, 0.5, 1.0], "▁▅█"), ([1.0] * 100, "█" * 12)],
)
def test_sparklines(values: list[float], text: str) -> None:
    assert sparkline(values) == text


def test_a_number_that_is_not_there_is_a_dash() -> None:
    assert (number(None), number(0.12345), number(2.0, 1)) == ("-", "0.123", "2.0")
