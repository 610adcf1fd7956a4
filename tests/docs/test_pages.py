"""The hand-written pages against the tree: links lead somewhere, rooms and commands exist, the import table is the tested one."""

import re
from collections.abc import Iterable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from swarmd.cli.main import swarmd
from swarmd.clients.policy import Saved, Updated
from swarmd.clients.update_stats import UpdateStats
from swarmd.config import known_keys
from swarmd.errors import Failure
from swarmd.loops.record import EvaluationRecord
from tests.loops.fakes import a_round
from tests.test_import_rules import MAY_IMPORT

A_ROUND = a_round(
    updated=Updated(1, Saved(1, "round-1", Failure("DiskFull", "", "", ""), 0.1), UpdateStats())
)
ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "deploy" / "README.md"]
# Pages that keep to the style: a line holds 100 characters, a cell of a table a phrase.
WRAPPED = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "ARCHITECTURE",
            "THREATS",
            "a-strangers-message",
            "contribute",
            "guards",
            "hacking",
            "policy",
            "quickstart",
            "trust",
            "what-is-shared",
        )
    ),
]
LINE_CHARS_MAX, CELL_CHARS_MAX = 100, 200
COMMANDS = [
    (page.name, line.strip())
    for page in PAGES
    for block in re.findall(r"```\n(.*?)```", page.read_text(), re.S)
    for line in block.splitlines()
    if re.match(r"(\S*/)?swarmd [a-z]", line.strip())
]
KIN = {"transformers and its kin", "libp2p and its kin"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", WRAPPED, ids=lambda page: page.name)
def test_lines_are_short_and_cells_hold_a_phrase(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for line in prose.splitlines():
        if line.startswith("|"):
            assert max(map(len, line.split("|"))) <= CELL_CHARS_MAX, line
        else:
            assert len(line) <= LINE_CHARS_MAX, line


def test_the_import_table_is_the_one_that_is_tested() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", (ROOT / "docs" / "ARCHITECTURE.md").read_text(), re.M)
    assert len(rows) >= 10
    for room, names in rows:
        told = set() if names == "nothing" else set(names.split(", "))
        assert told - KIN <= MAY_IMPORT[room], room
        assert not told & KIN or told & KIN < KIN
        assert told & KIN or told == MAY_IMPORT[room], room


def test_settings_named_in_prose_exist() -> None:
    sections = {key.split(".")[0] for key in known_keys()}
    for page in PAGES:
        for key in re.findall(r"`(\w+\.\w+)(?: = \w+)?`", page.read_text()):
            assert key in known_keys() or key.split(".")[0] not in sections, f"{page.name}: {key}"


@pytest.mark.parametrize(
    ("heading", "keys"),
    [("A round", A_ROUND.to_record()), ("An evaluation", EvaluationRecord.__annotations__)],
)
def test_the_page_of_records_lists_every_key_once(heading: str, keys: Iterable[str]) -> None:
    page = (
        (ROOT / "docs" / "reference" / "rounds.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    )
    rows = re.findall(r"^\| (`.*?) \|", page, re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(keys)


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_every_command_line_is_understood(page: str, line: str) -> None:
    words = line.split("swarmd ", 1)[1].split()
    num_commands = 2 if isinstance(swarmd.commands.get(words[0]), click.Group) else 1
    said = CliRunner().invoke(swarmd, [*words[:num_commands], "--help"])
    assert said.exit_code == 0
    assert all(word in said.output for word in words if word.startswith("--"))
