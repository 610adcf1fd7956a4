"""What killed processes and damage leave in a folder is bounded."""

from pathlib import Path

import pytest

from swarmd.files.aside import set_aside
from swarmd.files.atomic import remove_left_over


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_temporary_files_go_and_nothing_else(tmp_path: Path) -> None:
    others = [".tmp", "a.1.tmp", ".a.tmp", ".a.b.tmp", ".a.1.tmp.json"]
    for name in [".a.1.tmp", ".peers.json.12345.tmp", *others]:
        (tmp_path / name).touch()
    (tmp_path / ".folder.1.tmp").mkdir()
    remove_left_over(tmp_path)
    assert names(tmp_path) == sorted([*others, ".folder.1.tmp"])


def test_the_newest_two_copies_stay(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / "a").write_text(str(number))
        assert set_aside(tmp_path / "a", "corrupt").name == f"a.corrupt-{number + 1}"
    assert names(tmp_path) == ["a.corrupt-11", "a.corrupt-12"]
    assert (tmp_path / "a.corrupt-12").read_text() == "11"


def test_copies_of_other_files_and_endings_are_left_alone(tmp_path: Path) -> None:
    others = ["a.old-1", "ab.corrupt-1", "a.corrupt-1x", "a.corrupt-", "xa.corrupt-3"]
    for name in ["a", *others]:
        (tmp_path / name).touch()
    set_aside(tmp_path / "a", "corrupt")
    assert names(tmp_path) == sorted([*others, "a.corrupt-1"])


def test_what_is_not_there_is_not_set_aside(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        set_aside(tmp_path / "a", "corrupt")
