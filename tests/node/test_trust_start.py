"""Standings at a start: read back after any kind of end, and never a reason not to start."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from swarmd.config import Config, load_config
from swarmd.errors import StateError
from swarmd.files.checked import encode_checked
from swarmd.files.datadir import DataDir
from swarmd.metrics import Metrics
from swarmd.node.known import open_trust
from swarmd.trust.standing import Standings
from swarmd.trust.standings_file import decode_into, encode, encode_bans, rows_of
from swarmd.trust.trust import Trust

AUTHOR = b"a" * 32
NOW_S = 1_700_000_000.0


def opened(folder: Path, config: Config | None = None) -> tuple[Trust, list[str]]:
    said = list[str]()
    return open_trust(config or Config(), DataDir(folder), Metrics([], []), said.append), said


def write_some(folder: Path) -> None:
    standings = Standings(proven_rollouts=1)
    standings.scored(AUTHOR, num_rollouts=40)
    standings.ban(b"b" * 32, NOW_S, for_s=None, reason="spam")
    DataDir(folder).standings.write_bytes(encode(rows_of(standings, NOW_S)))
    DataDir(folder).bans.write_bytes(encode_bans(rows_of(standings, NOW_S)))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "bit": flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "empty": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


def test_the_first_start_knows_nobody_and_says_nothing(tmp_path: Path) -> None:
    trust, said = opened(tmp_path)
    assert (trust.standings.num_authors, said) == (0, [])


def test_what_was_known_is_known_again(tmp_path: Path) -> None:
    write_some(tmp_path)
    trust, said = opened(tmp_path)
    assert trust.standings.proven(AUTHOR)
    assert trust.standings.banned(b"b" * 32, NOW_S)
    assert "1 banned" in said[0]


@pytest.mark.parametrize("name", ["standings.json", "bans.json"])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_an_operators_ban_outlives_damage_of_either_file(
    tmp_path: Path, damage: Callable[[Path], object], name: str
) -> None:
    write_some(tmp_path)
    damage(tmp_path / name)
    trust, said = opened(tmp_path)
    assert trust.standings.banned(b"b" * 32, NOW_S)
    assert trust.standings.changed
    assert (name in said[0], "hold" in said[0], len(said)) == (True, True, 2)
    assert trust.standings.proven(AUTHOR) == (name == "bans.json")


@pytest.mark.parametrize("damage", [flip, DAMAGE["cut"], DAMAGE["empty"]])
def test_what_is_lost_is_counted_and_told(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    write_some(tmp_path)
    for name in ("standings.json", "bans.json"):
        damage(tmp_path / name)
    said, metrics = list[str](), Metrics([], [])
    open_trust(Config(), DataDir(tmp_path), metrics, said.append)
    text = metrics.render().decode()
    assert 'swarmd_state_damaged_total{what="standings"} 1.0' in text
    assert 'swarmd_state_damaged_total{what="bans"} 1.0' in text
    assert "your own bans are lost" in said[0]
    assert "your own bans are lost" in said[1]


def test_a_damaged_file_is_set_aside_once_or_twice(tmp_path: Path) -> None:
    for _ in range(5):
        write_some(tmp_path)
        flip(tmp_path / "standings.json")
        opened(tmp_path)
    aside = sorted(path.name for path in tmp_path.glob("standings.json.*"))
    assert aside == ["standings.json.corrupt-4", "standings.json.corrupt-5"]


@pytest.mark.parametrize("name", ["standings.json", "bans.json"])
def test_a_later_swarmds_file_refuses_the_start_and_stays(tmp_path: Path, name: str) -> None:
    write_some(tmp_path)
    content = encode_checked(9, {})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StateError, match="has version 9") as refused:
        opened(tmp_path)
    assert "upgrade swarmd" in refused.value.fix
    assert (tmp_path / name).read_bytes() == content


def test_standings_of_a_swarmd_that_had_no_file_of_bans_are_no_loss(tmp_path: Path) -> None:
    write_some(tmp_path)
    content = {**json.loads((tmp_path / "standings.json").read_bytes()), "version": 3}
    del content["sha256"]
    (tmp_path / "standings.json").write_text(json.dumps(content))
    (tmp_path / "bans.json").unlink()
    _, said = opened(tmp_path)
    assert [line[0] for line in said] == ["✓"]


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
