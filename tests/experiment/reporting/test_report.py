"""The report as a person finds it: complete, linked, escaped, repeatable."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swarmd.cli.experiment import experiment
from swarmd.errors import ConfigError
from swarmd.experiment.reporting.document import (
    Block,
    Code,
    Figure,
    Heading,
    Items,
    Table,
    Text,
    escaped,
    to_html,
    to_markdown,
)
from swarmd.experiment.reporting.report import file_names, write_report
from tests.experiment.reporting.synthetic import Synthetic, rising, write_experiment

NASTY = "x|<script>`$y$` _z_"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scenarios, a nasty name, a cell that stopped; the report is written."""
    place = tmp_path_factory.mktemp("experiment")
    arms = {"8/0": Synthetic(), "4/4": Synthetic(rising(1.6)), NASTY: Synthetic(rising(2.5))}
    write_experiment(place, arms, seeds=range(3), num_nodes=2, num_rounds=20)
    write_experiment(place, {"4/4": Synthetic()}, seeds=[3], num_nodes=2, num_rounds=20, status="stopped")
    late = {"8/0": Synthetic(), "4/4": Synthetic(late_speed=3.0)}
    write_experiment(place, late, seeds=range(2), num_nodes=2, num_rounds=20, scenario="late")
    write_report(place)
    return place


def text_of(folder: Path, name: str) -> str:
    return (folder / "report" / name).read_text(encoding="utf-8")


def test_markdown_links_only_to_pictures_that_are_there(folder: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", text_of(folder, "report.md"))
    assert len(links) >= 7
    assert set(links) == {path.name for path in (folder / "report").glob("*.png")}


def test_every_picture_is_a_png(folder: Path) -> None:
    pictures = sorted((folder / "report").glob("*.png"))
    assert {path.stem for path in pictures} >= {"alike-paper-rewards", "late-paper-special"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


class Page(HTMLParser):
    """What a browser would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_else_and_runs_nothing(folder: Path) -> None:
    page = Page()
    page.feed(text_of(folder, "report.html"))
    assert page.tags.count("img") == len(list((folder / "report").glob("*.png")))
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert not {"script", "link", "iframe"} & set(page.tags)


def test_names_from_files_are_escaped_everywhere(folder: Path) -> None:
    assert "<script>" not in text_of(folder, "report.html")
    assert "&lt;script&gt;" in text_of(folder, "report.html")
    assert escaped(NASTY) in text_of(folder, "report.md")
    assert not re.search(r"(?<!\\)<script", text_of(folder, "report.md"))


def test_table_rows_have_as_many_cells_as_their_head(folder: Path) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", text_of(folder, "report.md"), re.M)
    assert len(tables) > 10
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_a_second_report_changes_nothing(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in (folder / "report").iterdir()}
    write_report(folder)
    assert {path.name: path.read_bytes() for path in (folder / "report").iterdir()} == before


def test_everything_to_repeat_it_is_there(folder: Path) -> None:
    text = text_of(folder, "report.md")
    for part in (
        "swarmd experiment run --preset laptop",
        "ab" * 32,
        "versions.numpy",
        "0.0003",
        "seeds | 0, 1, 2",
    ):
        assert part.replace("_", r"\_") in text


def test_cells_that_are_left_out_are_named(folder: Path) -> None:
    assert "| alike/4-4/seed-3 | stopped | 20 of 20 rounds done |" in text_of(folder, "report.md")


def test_a_claim_that_was_not_run_is_said_not_to_be(folder: Path) -> None:
    text = text_of(folder, "report.md")
    assert "no finished cell of 8/0 dynamic" in text
    assert "no finished cell of 2/6 or 4/4" not in text


def test_where_matplotlib_is_missing_there_are_tables_and_a_word_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    write_report(folder, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.md"]
    assert "matplotlib is not installed" in (tmp_path / "report.md").read_text()


def test_one_seed_and_one_arm_still_make_a_report(tmp_path: Path) -> None:
    write_experiment(tmp_path, {"4/4": Synthetic()}, seeds=[0], num_nodes=1, num_rounds=2, evaluate_every=2)
    written = write_report(tmp_path)
    assert {verdict.state for verdict in written.verdicts} == {"not run"}
    assert "No comparison could be made" in text_of(tmp_path, "report.md")


def test_scenarios_of_any_name_get_files_of_their_own() -> None:
    names = file_names(["../etc", "etc", "É", "ä", "like nodes"])
    assert list(names.values()) == ["etc", "etc-", "scenario", "scenario-", "like-nodes"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", r"a\|b"),
        ("<b> & [x](y)", r"\<b\> \& \[x\](y)"),
        ("two\nlines\n\n# three", r"two lines \# three"),
        ("1. first", r"\1. first"),
        ("- item", r"\- item"),
        ("back\\slash `code`", r"back\\slash \`code\`"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, written: str) -> None:
    assert escaped(text) == written


def test_code_cannot_close_its_own_fence() -> None:
    assert to_markdown([Code("a\n```\nb")]) == "````text\na\n```\nb\n````\n"


def test_every_kind_of_block_is_html(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"png")
    blocks: list[Block] = [
        Heading(1, "T&"),
        Text("<p>"),
        Items(["<i>"]),
        Table(["<h>"], [["1.5"]]),
        Code("<c>"),
        Figure("p", '"'),
    ]
    text = to_html(blocks, tmp_path)
    assert "<title>T&amp;</title>" in text
    for part in (
        "&lt;p&gt;",
        "&lt;i&gt;",
        "&lt;h&gt;",
        '<td class="number">1.5</td>',
        "&lt;c&gt;",
        'alt="&quot;"',
    ):
        assert part in text


def run(*arguments: str) -> Any:
    return CliRunner().invoke(experiment, ["report", *arguments])


def test_the_command_prints_verdicts_and_where_the_report_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # pictures take seconds
    result = run(str(folder), "--seeds", "0-1", "--output", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert (
        re.search(r"^not decided +2\.\d\d .* 2 seeds  alike: Is .* ahead of 8/0", result.output, re.M) is None
    )
    assert re.search(r"^not decided +1\.\d\d .* 2 seeds  alike: Is 4/4 ahead of 8/0", result.output, re.M)
    assert result.output.endswith(f"report  {tmp_path / 'out' / 'report.html'}\n")
    assert (tmp_path / "out" / "report.html").is_file()


def test_the_command_says_when_there_is_nothing_to_report(tmp_path: Path) -> None:
    result = run(str(tmp_path))
    assert isinstance(result.exception, ConfigError)
    assert "holds no cell" in str(result.exception)


@pytest.mark.parametrize("seeds", ["a", "1-", "-1", "1-b", "0-99999999"])
def test_seeds_that_are_no_list_are_refused(folder: Path, tmp_path: Path, seeds: str) -> None:
    result = run(str(folder), "--seeds", seeds, "--output", str(tmp_path / "out"))
    assert isinstance(result.exception, ConfigError)
    assert not (tmp_path / "out").exists()
