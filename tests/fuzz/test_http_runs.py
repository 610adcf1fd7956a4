"""The counted runs against the local HTTP interface: they repeat, and they find what is planted."""

import random
from urllib.parse import urlsplit

import pytest
import trio

from swarmd.control import http
from swarmd.control.http import End
from swarmd.control.target import BadTarget, Target
from tests.control.nasty import TARGETS
from tests.fuzz import http as target
from tests.fuzz import http_runs
from tests.fuzz.finding import Finding
from tests.fuzz.http_runs import WORDS, run_requests, run_sockets, run_targets
from tests.fuzz.mutate import mutated


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setattr(http_runs, "RUNS", tmp_path)


def test_the_same_seed_gives_the_same_inputs():
    one, other = ([mutated(random.Random(3), TARGETS, WORDS) for _ in range(50)] for _ in range(2))
    assert one == other


def test_runs_print_their_figures(capsys):
    run_targets(500, 0)
    trio.run(run_requests, 100, 0)
    trio.run(run_sockets, 50, 0)
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["targets", "500"],
        ["requests", "100"],
        ["sockets", "50"],
    ]


def as_it_was(raw):
    """The parse of targets that ended nodes."""
    parts = urlsplit(raw.decode("ascii", "replace"))
    return Target(parts.path, {})


def test_an_exception_that_leaves_the_parse_is_found_and_its_input_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(http_runs, "parse_target", as_it_was)
    with pytest.raises((ValueError, Finding)):
        run_targets(5000, 0)
    assert (tmp_path / "http" / "found").exists()


@pytest.mark.parametrize("run", [run_requests, run_sockets])
def test_an_exception_that_leaves_a_connection_is_found_and_its_input_kept(monkeypatch, tmp_path, run):
    monkeypatch.setattr(http, "parse_target", as_it_was)
    with pytest.raises(ExceptionGroup) as caught:
        trio.run(run, 3000, 0)
    assert caught.group_contains(Finding, match="an exception closed a connection")
    assert (tmp_path / "http" / "found").exists()


def test_another_reading_than_the_standard_librarys_is_found(monkeypatch):
    monkeypatch.setattr(http_runs, "parse_target", lambda raw: Target(raw.decode("latin-1"), {}))
    with pytest.raises((Finding, UnicodeDecodeError)):
        run_targets(5000, 0)


def test_a_target_without_an_end_is_refused():
    with pytest.raises(BadTarget):
        http_runs.parse_target(b"/" * 5000)


@pytest.mark.parametrize(
    ("said", "end", "words"),
    [
        (b"", End.ANSWERED, "no answer"),
        (b"", End.FAILED, "ended failed"),
        (b"HTTP/1.1 500 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n", End.ANSWERED, "status 500"),
        (b"HTTP/1.1 200 \r\nContent-Length: 0\r\nConnection: keep\r\n\r\n", End.ANSWERED, "stay open"),
        (b"HTTP/1.1 200 \r\nContent-Length: 2\r\nConnection: close\r\n\r\na", End.ANSWERED, "1 bytes"),
        (b"HTTP/1.1 200 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n", End.FOREIGN, "200 for foreign"),
    ],
)
def test_an_answer_that_is_none_is_found(said, end, words):
    with pytest.raises(Finding, match=words):
        target.check_answer(said, end, is_gated=True)
