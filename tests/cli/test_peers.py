"""`swarmd peers ban|unban|bans`: what is asked of the daemon, and what is refused before."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swarmd.cli.main import swarmd
from swarmd.cli.peers import bans_table
from swarmd.errors import SwarmdError
from tests.cli.fake_daemon import Answers, fake_daemon

PEER_ID = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo"
HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\n"


def asked(folder: Path, answers: Answers, *arguments: str) -> tuple[Any, list[str]]:
    with fake_daemon(folder, answers) as requests:
        return CliRunner().invoke(swarmd, ["peers", *arguments, "--data-dir", str(folder)]), requests


def row(**changes: Any) -> dict[str, Any]:
    return {
        "peer_id": PEER_ID,
        "by": "points",
        "reason": "forged_reply",
        "since_s": 1.0,
        "left_s": 59.5,
        **changes,
    }


@pytest.mark.parametrize(
    ("options", "query", "said"),
    [
        ([], "reason=", "until unbanned"),
        (["--for", "1h"], "reason=&for_s=3600", "for 1 h 0 m"),
        (["--for", "90s", "--reason", "a b"], "reason=a+b&for_s=90", "for 1 m 30 s"),
    ],
)
def test_a_ban_is_asked_for(tmp_path: Path, options: list[str], query: str, said: str) -> None:
    target = f"POST /v1/ban?peer_id={PEER_ID}&{query}"
    result, requests = asked(tmp_path, {target: (200, {"banned": True})}, "ban", PEER_ID, *options)
    assert requests == [target]
    assert result.output == f"banned {PEER_ID} {said}\n"


@pytest.mark.parametrize("time", ["1", "h", "0s", "-1h", "1.5h", "1w", "forever", "9999999999s", ""])
def test_a_time_that_is_none_is_refused(tmp_path: Path, time: str) -> None:
    result, requests = asked(tmp_path, {}, "ban", PEER_ID, "--for", time)
    assert (result.exit_code, requests) == (2, [])
    assert "for example 1h" in result.output


@pytest.mark.parametrize("command", ["ban", "unban"])
@pytest.mark.parametrize("peer_id", ["me", PEER_ID[:-1], PEER_ID + "x", f"/p2p/{PEER_ID}"])
def test_what_is_no_peer_id_is_refused_before_anybody_is_asked(
    tmp_path: Path, command: str, peer_id: str
) -> None:
    result, requests = asked(tmp_path, {}, command, peer_id)
    assert (result.exit_code, requests) == (2, [])
    assert "is not a peer id" in result.output


def test_a_refusal_of_the_daemon_is_told_in_its_words(tmp_path: Path) -> None:
    answers: Answers = {f"POST /v1/unban?peer_id={PEER_ID}": (404, {"error": "this peer is not banned"})}
    result, _ = asked(tmp_path, answers, "unban", PEER_ID)
    assert isinstance(result.exception, SwarmdError)
    assert result.exception.what == "this peer is not banned"


def test_a_ban_is_lifted(tmp_path: Path) -> None:
    answers: Answers = {f"POST /v1/unban?peer_id={PEER_ID}": (200, {"banned": False})}
    result, _ = asked(tmp_path, answers, "unban", PEER_ID)
    assert result.output == f"no longer banned: {PEER_ID}\n"


def test_bans_are_a_table(tmp_path: Path) -> None:
    rows = [row(), row(by="operator", reason="spam", left_s=None)]
    result, _ = asked(tmp_path, {"GET /v1/bans": (200, {"bans": rows})}, "bans")
    _, first, second = result.output.splitlines()
    assert first.split() == [PEER_ID, "points", "1", "m", "0", "s", "forged_reply"]
    assert second.split() == [PEER_ID, "operator", "until", "unbanned", "spam"]


def test_nobody_is_said_to_be_banned() -> None:
    assert bans_table([]) == "nobody is banned"


def test_a_reason_cannot_write_on_the_terminal() -> None:
    lines = bans_table([row(reason=HOSTILE)]).splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


def test_the_directory_may_stand_before_the_subcommand(tmp_path: Path) -> None:
    with fake_daemon(tmp_path, {"GET /v1/bans": (200, {"bans": []})}):
        result = CliRunner().invoke(swarmd, ["peers", "--data-dir", str(tmp_path), "bans"])
    assert result.output == "nobody is banned\n"
