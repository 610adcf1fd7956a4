"""What was asked and sent is on disk at each step, whatever dies, and whoever else writes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmd.contribute.ledger import Asked, Ledger, State
from swarmd.errors import LocalError, StateError
from swarmd.experience.counters import QuestionCounter

ME, OTHER, SWARM = b"m" * 32, b"o" * 32, b"s" * 32

VICTIM = """
import pathlib, sys
from swarmd.contribute.ledger import Ledger
ledger = Ledger(pathlib.Path(sys.argv[1]), b"m" * 32)
for number in range(10**6):
    ledger.ask(b"s" * 32, [(0, number)])
    ledger.begin({number: b"answers"})
    if number % 2:
        ledger.sent([number])
    print(number, flush=True)
"""

RESERVER = """
import pathlib, sys
from swarmd.experience.counters import QuestionCounter
counter = QuestionCounter(pathlib.Path(sys.argv[1]), used=0, now_ms=lambda: 10**12)
print("ready", flush=True)
sys.stdin.readline()
print(*[counter.reserve(3) for _ in range(40)], flush=True)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "contributed.sqlite", ME)
    ledger.ask(SWARM, [(2, 7), (0, 8)])
    yield ledger
    ledger.close()


def states(ledger: Ledger) -> dict[int, State]:
    return {counter: asked.state for counter, asked in ledger.find(range(10)).items()}


def test_what_was_asked_is_known_by_its_counter(ledger: Ledger) -> None:
    assert ledger.find([6, 7]) == {7: Asked(SWARM, 2, State.OPEN, None)}


def test_another_key_asked_nothing(ledger: Ledger, tmp_path: Path) -> None:
    other = Ledger(tmp_path / "contributed.sqlite", OTHER)
    assert other.find([7, 8]) == {}
    other.close()


def test_answers_leave_and_are_sent(ledger: Ledger) -> None:
    assert ledger.begin({7: b"a", 8: b"b"}) == [7, 8]
    ledger.sent([7])
    assert ledger.find([7, 8]) == {
        7: Asked(SWARM, 2, State.SENT, b"a"),
        8: Asked(SWARM, 0, State.LEAVING, b"b"),
    }


def test_the_same_answers_may_leave_again_after_a_crash(ledger: Ledger) -> None:
    ledger.begin({7: b"a"})
    assert ledger.begin({7: b"a", 8: b"b"}) == [8]


@pytest.mark.parametrize("sent", [False, True])
def test_nothing_else_may(ledger: Ledger, *, sent: bool) -> None:
    ledger.begin({7: b"a"})
    if sent:
        ledger.sent([7])
    with pytest.raises(LocalError, match="counter 7"):
        ledger.begin({8: b"b", 7: b"a" if sent else b"other"})
    assert states(ledger)[8] is State.OPEN


def test_what_nobody_took_is_open_again(ledger: Ledger) -> None:
    ledger.reopen(ledger.begin({7: b"a"}))
    assert ledger.begin({7: b"other"}) == [7]


def test_what_was_never_asked_cannot_leave(ledger: Ledger) -> None:
    with pytest.raises(LocalError, match="counter 9"):
        ledger.begin({9: b"a"})


def test_two_commands_do_not_take_the_same_question(ledger: Ledger, tmp_path: Path) -> None:
    beside = Ledger(tmp_path / "contributed.sqlite", ME)
    ledger.begin({7: b"a"})
    with pytest.raises(LocalError):
        beside.begin({7: b"b"})
    beside.close()


def test_a_killed_command_leaves_every_finished_step(tmp_path: Path) -> None:
    path = tmp_path / "contributed.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(path)], stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout
        last = [int(victim.stdout.readline()) for _ in range(50)][-1]
        os.kill(victim.pid, signal.SIGKILL)
        last = max([last, *map(int, victim.stdout.read().split())])
    found = Ledger(path, ME).find(range(last + 1))
    expected = {number: State.SENT if number % 2 else State.LEAVING for number in range(last + 1)}
    assert {number: asked.state for number, asked in found.items()} == expected


def test_a_damaged_file_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "contributed.sqlite"
    path.write_bytes(b"\xa5" * 8192)
    with pytest.raises(StateError, match="damaged"):
        Ledger(path, ME)
    assert path.read_bytes() == b"\xa5" * 8192


def test_processes_that_share_the_question_counter_never_get_the_same(tmp_path: Path) -> None:
    path = tmp_path / "node.sqlite"
    QuestionCounter(
        path, used=None, now_ms=lambda: 10**12
    ).close()  # a node opens it before a command can find the node
    command = [sys.executable, "-c", RESERVER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    reservers = [subprocess.Popen(command, text=True, **pipes) for _ in range(3)]  # type: ignore[call-overload]
    for reserver in reservers:
        assert reserver.stdout.readline() == "ready\n"
    for reserver in reservers:
        reserver.stdin.write("go\n")
        reserver.stdin.flush()
    firsts = [int(first) for reserver in reservers for first in reserver.communicate()[0].split()]
    assert sorted(firsts) == list(range(0, 3 * 120, 3))
