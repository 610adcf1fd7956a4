"""The entry point: every end of a command is a readable one, with its exit code."""

import io
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from swarmd.cli import main as entry
from swarmd.cli.contribute import contribute
from swarmd.cli.doctor import memory
from swarmd.cli.main import main, swarmd
from swarmd.cli.maintain import export
from swarmd.cli.options import NodeOptions, parse_settings
from swarmd.cli.run import listen_on, say, start
from swarmd.config import known_keys, reference
from swarmd.errors import BY_NAME, ConfigError, NotRunning, StateError


def end(monkeypatch: pytest.MonkeyPatch, *arguments: str, error: BaseException | None = None) -> int:
    """The exit code of `swarmd arguments`, or of a command that raises `error`."""
    monkeypatch.setattr("sys.argv", ["swarmd", *arguments])
    if error is not None:

        def fail(**options: Any) -> None:
            raise error

        monkeypatch.setattr(entry.swarmd, "main", fail)
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.parametrize("kind", BY_NAME.values(), ids=BY_NAME)
def test_a_foreseen_failure_ends_with_its_code_and_three_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: Any
) -> None:
    assert end(monkeypatch, error=kind("what", "why", "fix")) == kind.exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("swarmd: what\n  why\n  fix\n")
    assert "docs/reference/exit-codes.md" in said.err


def test_a_failure_inside_nurseries_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = ExceptionGroup("inner", [ValueError("noise"), StateError("damaged")])
    assert end(monkeypatch, error=ExceptionGroup("outer", [inner])) == 16


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), click.Abort(), BaseExceptionGroup("group", [KeyboardInterrupt()])],
    ids=["interrupt", "abort", "nursery"],
)
def test_an_interrupt_ends_with_the_shells_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    assert end(monkeypatch, error=error) == 130
    assert "resumes from the last checkpoint" in capsys.readouterr().err


def test_what_was_not_foreseen_leaves_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert end(monkeypatch, error=ZeroDivisionError("by us")) == 1
    (file,) = tmp_path.iterdir()
    assert "ZeroDivisionError: by us" in file.read_text()
    assert str(file) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["nothing"], 2),
        (["status", "--nothing"], 2),
        (["start", "--rounds", "0"], 2),
        (["start", "--device", "tpu"], 2),
        (["start", "--port", "1", "--listen", "/ip4/0.0.0.0/tcp/1"], 2),
        (["start", "--set", "nonsense"], 2),
        (["start", "--config", "/nonexistent.toml"], 2),
        (["status", "--data-dir", "/nonexistent"], 3),
        (["config", "show", "--set", "policy.modle=x"], 2),
    ],
)
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int) -> None:
    assert end(monkeypatch, *arguments) == code


def flags_given(*arguments: str) -> dict[str, object]:
    """What `swarmd start` makes of a command line."""
    context = start.make_context("start", list(arguments))
    node = context.ensure_object(NodeOptions)
    listen_on(node, context.params["port"])
    return node.flags


def test_flags_become_settings() -> None:
    found = flags_given(
        *("--model", "tiny", "--port", "0", "--bootstrap", "a", "--bootstrap", "b", "--solo"),
        *("--tasks", "gcd,lcm", "--metrics-port", "0", "--set", "update.epochs=2"),
    )
    assert found == {
        "policy.model": "tiny",
        "swarm.listen": "/ip4/0.0.0.0/tcp/0",
        "swarm.bootstrap": ("a", "b"),
        "swarm.solo": True,
        "questions.datasets": "gcd,lcm",
        "control.metrics_port": "0",
        "update.epochs": "2",
    }


def test_set_comes_before_an_option_of_its_own_wherever_it_stands() -> None:
    words = ("--set", "policy.model=other", "--model", "tiny")
    assert flags_given(*words) == flags_given(*words[2:], *words[:2]) == {"policy.model": "other"}


def test_what_is_not_given_is_no_setting() -> None:
    assert flags_given() == {}


def test_every_option_of_a_setting_names_one_that_exists() -> None:
    commands = (start, memory, export, contribute)
    names = {parameter.name or "" for command in commands for parameter in command.params}
    found = {name.replace("__", ".") for name in names if "__" in name}
    assert len(found) >= 12
    assert found <= set(known_keys())


@pytest.mark.parametrize("setting", ["", "=", "a=b", "section.key", "key"])
def test_a_setting_that_is_none_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"SECTION\.KEY=VALUE"):
        parse_settings((setting,))


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse_settings(("swarm.name=a=b",)) == {"swarm.name": "a=b"}


def test_the_settings_in_force_are_shown(tmp_path: Path) -> None:
    said = CliRunner().invoke(
        swarmd, ["config", "show", "--data-dir", str(tmp_path), "--set", "experience.mix=2/6"]
    )
    assert json.loads(said.output)["experience"]["mix"] == "2/6"


def test_the_manual_is_printed() -> None:
    assert CliRunner().invoke(swarmd, ["config", "reference"]).output == reference()


def test_there_is_nothing_to_export_before_the_first_checkpoint(tmp_path: Path) -> None:
    said = CliRunner().invoke(swarmd, ["export", str(tmp_path / "out"), "--data-dir", str(tmp_path)])
    assert isinstance(said.exception, StateError)
    assert not isinstance(said.exception, NotRunning)
    assert not (tmp_path / "out").exists()


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_line_that_nobody_can_take_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Gone())
    say("a round")
