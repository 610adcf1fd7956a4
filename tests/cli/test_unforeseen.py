"""Tracebacks are kept in a bounded number, and only our own are removed."""

import tempfile
from pathlib import Path

import pytest

from swarmd.cli.unforeseen import TRACEBACKS_MAX, keep_traceback


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_last_few_stay(place: Path) -> None:
    paths = [keep_traceback(str(number)) for number in range(TRACEBACKS_MAX + 3)]
    assert {path for path in paths if path.exists()} == set(place.iterdir())
    assert len(set(place.iterdir())) == TRACEBACKS_MAX
    assert paths[-1].read_text() == str(TRACEBACKS_MAX + 2)


def test_what_is_not_ours_to_remove_stays(place: Path) -> None:
    others = [place / "swarmd-traceback-folder.txt", place / "swarmd-traceback-link.txt", place / "else.txt"]
    others[0].mkdir()
    others[1].symlink_to(others[2])
    others[2].touch()
    for number in range(TRACEBACKS_MAX + 3):
        keep_traceback(str(number))
    assert all(path.exists() for path in others)
