"""`swarmd manifest`: seal a draft of one's own, and check what would be joined."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swarmd.cli.main import swarmd
from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.protocol.manifest import load_manifest

DRAFT = """
name = "mine"
prompt_template = "{question}"
answer_format = "plain"
scorer_version = 2
[[datasets]]
name = "gcd"
params = { max_value = 50 }
"""


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(DRAFT)
    return path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(swarmd, ["manifest", *arguments])


def test_a_draft_is_sealed_and_then_checked(draft: Path) -> None:
    assert isinstance(run("check", str(draft)).exception, ConfigError)
    said = run("seal", str(draft))
    assert said.exit_code == 0
    assert "sealed 1 datasets" in said.output
    topic = load_manifest(draft).topic
    assert topic in said.output
    assert topic in run("check", str(draft)).output


def test_sealing_twice_leaves_the_file_alone(draft: Path) -> None:
    run("seal", str(draft))
    before = draft.read_bytes(), draft.stat().st_mtime_ns
    assert "sealed already" in run("seal", str(draft)).output
    assert (draft.read_bytes(), draft.stat().st_mtime_ns) == before


def test_a_changed_parameter_asks_for_a_new_seal(draft: Path) -> None:
    run("seal", str(draft))
    draft.write_text(draft.read_text().replace("50", "51"))
    assert isinstance(run("check", str(draft)).exception, IncompatibleSwarm)
    run("seal", str(draft))
    assert run("check", str(draft)).exit_code == 0


def test_what_cannot_be_sealed_is_left_as_it_was(draft: Path) -> None:
    draft.write_text(DRAFT.replace("gcd", "countdown"))
    assert isinstance(run("seal", str(draft)).exception, IncompatibleSwarm)
    assert "golden" not in draft.read_text()


@pytest.mark.parametrize("file", ["no-such-file.toml", "."])
def test_a_file_that_cannot_be_read_is_named(file: str) -> None:
    error = run("seal", file).exception
    assert isinstance(error, ConfigError)
    assert file in str(error)
