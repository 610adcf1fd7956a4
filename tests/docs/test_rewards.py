"""The page of rewards for nothing: it is of the manifests that ship, its figures are the command's, and none is above the bound."""

import re

import pytest

from swarmd.protocol.manifest import FOLDER, load_manifest
from swarmd.questions.cheap import cheap_rows, line_of
from tests.docs.make_rewards import NUM_QUESTIONS, PAGE, caption

BOUND = 0.15
TEXT = PAGE.read_text()
TABLES = {
    name: re.findall(r"^\| ([a-z]\w+) \| (.*) \|$", table, re.M)
    for name, table in re.findall(r"^Manifest `([a-z-]+)`,.*\n\n((?:\|.*\n)+)", TEXT, re.M)
}


def test_each_shipped_manifest_has_a_table_of_its_datasets() -> None:
    assert set(TABLES) == {path.stem for path in FOLDER.glob("*.toml")}
    for name, rows in TABLES.items():
        assert [dataset for dataset, _ in rows if dataset != "dataset"] == [
            spec.name for spec in load_manifest(name).datasets
        ]


@pytest.mark.parametrize("name", TABLES)
def test_the_figures_are_of_the_manifest_that_ships(name: str) -> None:
    assert caption(name) in TEXT, "run `python -m tests.docs.make_rewards`"


@pytest.mark.parametrize("name", ["tiny", "reasoning"])
def test_nothing_on_the_page_is_above_the_bound(name: str) -> None:
    for dataset, cells in TABLES[name]:
        for cell in cells.split(" | ") if dataset != "dataset" else []:
            assert float(cell.split()[0]) <= BOUND, dataset


@pytest.mark.parametrize(("name", "number"), [("tiny", 1), ("reasoning", 0), ("reasoning-paper", 5)])
def test_the_command_says_what_the_page_says(name: str, number: int) -> None:
    (row,) = cheap_rows(load_manifest(name), NUM_QUESTIONS, [number])
    assert line_of(row) in TEXT.splitlines()
