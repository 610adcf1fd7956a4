"""The page of errands names files and names that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "hacking.md").read_text()
STEPS = [" ".join(step.split()) for step in re.findall(r"^\d+\. (.*(?:\n   .*)*)", PAGE, re.M)]
FILE = re.compile(r"`((?:swarmd|docs|proto|tests)/[\w./-]+)`")
# What a step names besides files: Python names, and no commands or settings.
NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)`")


def test_every_file_exists() -> None:
    files = FILE.findall(PAGE)
    assert len(files) >= 20
    for file in files:
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("step", [step for step in STEPS if FILE.match(step)], ids=lambda step: step[:50])
def test_the_names_of_a_step_stand_in_its_file(step: str) -> None:
    place = ROOT / FILE.findall(step)[0]
    files = place.rglob("*.py") if place.is_dir() else [place]
    text = "\n".join(file.read_text() for file in files)
    for name in NAME.findall(FILE.sub("", step)):
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", text), f"{name} is not in {place}"
