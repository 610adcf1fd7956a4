"""What mypy sees: a field that an answer loses, and an event that nobody matches, are errors before anything runs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mypy's, of all these tests: what nobody alters is looked at once."""
    return tmp_path_factory.mktemp("cache")


def complaints(tmp_path: Path, cache: Path, altered: str, old: str, new: str, *looked_at: str) -> str:
    """What mypy says of some files while another is altered."""
    source = (ROOT / altered).read_text()
    assert source.count(old) == 1
    shadow = tmp_path / "shadow.py"
    shadow.write_text(source.replace(old, new))
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache)]
    command += ["--shadow-file", altered, str(shadow), *looked_at]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300).stdout


@pytest.mark.parametrize(
    ("field", "altered", "reader", "error"),
    [
        (
            "    cpu_s: float\n    held_s: float\n",
            "swarmd/clients/scorer.py",
            "swarmd/loops/ingest.py",
            '"Scores" has no attribute "cpu_s"',
        ),
        (
            "    subscribers: int\n",
            "swarmd/clients/network.py",
            "swarmd/loops/share.py",
            '"Reach" has no attribute "subscribers"',
        ),
    ],
    ids=["scorer", "network"],
)
def test_a_field_that_an_answer_loses_fails_mypy(
    tmp_path: Path, cache: Path, field: str, altered: str, reader: str, error: str
) -> None:
    first = field.index("\n") + 1
    assert error in complaints(tmp_path, cache, altered, field, field[first:], reader)


def test_an_event_that_nobody_matches_fails_mypy(tmp_path: Path, cache: Path) -> None:
    case = "        case CheckpointSkipped():\n"
    said = complaints(
        tmp_path, cache, "swarmd/node/events.py", case, "        case str():\n", "swarmd/node/events.py"
    )
    assert 'Argument 1 to "assert_never" has incompatible type "CheckpointSkipped"' in said
