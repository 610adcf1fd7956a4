"""The command: what it prints, and that it fails when something was found."""

import re
from pathlib import Path

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz.__main__ import Report
from tests.fuzz.make_corpus import CORPUS

FIGURES = {
    "executions": 1200,
    "elapsed_s": 10.0,
    "cpu_s": 6.0,
    "slowest_cpu_ms": 4.5,
    "slowest_wall_ms": 9.0,
    "growth_mb": 1.5,
}


def report(figures: dict[str, float] = FIGURES, found: tuple[str, ...] = ()) -> Report:
    return Report(figures, 500, 20, 30, [Path(name) for name in found], Path("log"))


def run(monkeypatch, *reports: Report) -> int:
    left = list(reports)
    monkeypatch.setattr(command, "session", lambda name, seconds: left.pop(0))
    return command.fuzz(["message", "peers"][: len(reports)], 60)


def test_a_session_without_a_find_is_a_row_of_figures(monkeypatch, capsys):
    assert run(monkeypatch, report(), report()) == 0
    head, row, _, total = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["target", "executions", "per"]
    assert row.split() == [
        "message",
        "1200",
        "120",
        "200",
        "4.50",
        "ms",
        "9.00",
        "ms",
        "1.5",
        "MB",
        "30",
        "500",
        "20",
    ]
    assert total.startswith("2400 executions in 20 s, 120 a second (200 a second of CPU time)")


def test_a_find_fails_and_says_how_to_see_it_again(monkeypatch, capsys):
    assert run(monkeypatch, report(found=("runs/fuzz/message/crash-1",)), report()) == 1
    out = capsys.readouterr().out
    assert "python -m tests.fuzz --target message --replay runs/fuzz/message/crash-1" in out
    assert "targets with a finding: 1" in out


def test_memory_that_grows_fails(monkeypatch, capsys):
    assert run(monkeypatch, report(FIGURES | {"growth_mb": 51.0})) == 1
    assert "memory grew by 51 MB, at most 50" in capsys.readouterr().out


def test_a_session_that_did_not_start_fails(monkeypatch, capsys):
    assert run(monkeypatch, report({})) == 1
    assert "did not start; see log" in capsys.readouterr().out


def test_one_input_can_be_run_again(monkeypatch, capsys):
    path = next((CORPUS / "peers").iterdir())
    monkeypatch.setattr("sys.argv", ["fuzz", "--target", "peers", "--replay", str(path)])
    assert command.main() == 0
    assert capsys.readouterr().out == "peers: nothing wrong\n"


def test_without_a_fuzzer_it_says_where_there_is_one(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fuzz", "--time", "1"])
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert command.main() == 2
    assert "Linux on x86-64" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "edges"), [("#12\tINITED cov: 180 ft: 244\n#13 NEW cov: 190", 180), ("", 0)]
)
def test_new_edges_are_those_that_the_corpus_did_not_reach(text, edges):
    assert command._edges_of_corpus(text) == edges


def test_every_word_of_the_dictionary_is_one_that_libfuzzer_reads():
    for line in (Path(command.__file__).parent / "words.dict").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r'"(\\x[0-9a-f]{2}|\\\\|\\"|[^"\\])+"', line), line
