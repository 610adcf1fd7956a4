"""Standings at a start: read back after any kind of end, and never a reason not to start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swarmd.config import Config, load_config
from swarmd.files.datadir import DataDir
from swarmd.node.parts import open_trust
from swarmd.trust.standing import Standings
from swarmd.trust.standings_file import decode_into, encode, rows_of
from swarmd.trust.trust import Trust

AUTHOR = b"a" * 32
NOW_S = 1_700_000_000.0


def opened(folder: Path, config: Config | None = None) -> tuple[Trust, list[str]]:
    said = list[str]()
    return open_trust(config or Config(), DataDir(folder), said.append), said


def write_some(folder: Path) -> None:
    standings = Standings(proven_rollouts=1)
    standings.scored(AUTHOR, num_rollouts=40)
    standings.ban(b"b" * 32, NOW_S, for_s=None, reason="spam")
    DataDir(folder).standings.write_bytes(encode(rows_of(standings, NOW_S)))


def test_the_first_start_knows_nobody_and_says_nothing(tmp_path: Path) -> None:
    trust, said = opened(tmp_path)
    assert (trust.standings.num_authors, said) == (0, [])


def test_what_was_known_is_known_again(tmp_path: Path) -> None:
    write_some(tmp_path)
    trust, said = opened(tmp_path)
    assert trust.standings.proven(AUTHOR)
    assert trust.standings.banned(b"b" * 32, NOW_S)
    assert "1 banned" in said[0]


@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 100, b'{"version": 9}', b"[" * 100_000], ids=len)
def test_a_damaged_file_costs_a_warning_and_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = DataDir(tmp_path).standings
    path.write_bytes(content)
    trust, said = opened(tmp_path)
    assert (trust.standings.num_authors, len(said), path.exists()) == (0, 1, False)
    assert path.with_suffix(".damaged").read_bytes() == content


def test_a_file_that_cannot_be_read_at_all_is_no_reason_not_to_start(tmp_path: Path) -> None:
    DataDir(tmp_path).standings.mkdir()
    _, said = opened(tmp_path)
    assert said[0].startswith("! standings")


def test_quotas_and_bans_can_be_switched_off(tmp_path: Path) -> None:
    config = load_config(flags={"trust.quotas": "off", "trust.bans": "off"}, environ={})
    trust, _ = opened(tmp_path, config)
    assert trust.quotas.take(AUTHOR, size_bytes=10**12, num_tokens=10**12, now=NOW_S) is None
    assert trust.standings.accuse(AUTHOR, "forged_reply", NOW_S, num=10**6) is None


WRITER = """
import sys
from pathlib import Path
from swarmd.files.atomic import write_atomically
from swarmd.trust.standings_file import encode, rows_of
from swarmd.trust.standing import Standings
standings, number = Standings(proven_rollouts=1), 0
while True:
    number += 1
    standings.ban(number.to_bytes(32, "big"), 1.0, for_s=None, reason="")
    write_atomically(Path(sys.argv[1]), encode(rows_of(standings, 2.0)))
    print(number, flush=True)
"""


@pytest.mark.parametrize("num_lines", [1, 5, 20])
def test_a_kill_at_any_moment_leaves_the_last_ban_that_was_told(tmp_path: Path, num_lines: int) -> None:
    path = DataDir(tmp_path).standings
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(num_lines)][-1]
        os.kill(process.pid, signal.SIGKILL)
    standings = Standings(proven_rollouts=1)
    decode_into(standings, path.read_bytes(), 2.0)
    assert standings.banned(told.to_bytes(32, "big"), 2.0)
