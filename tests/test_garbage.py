"""Memory that was freed."""

import subprocess
import sys

import pytest

from swarmd import garbage

# Blocks of which every other one is freed: nothing lies free at the end of the heap, and whole pages do between.
PROGRAM = """
from swarmd import garbage
def rss_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
blocks = [bytes([number % 255 + 1]) * 100_000 for number in range(400)]
del blocks[::2]
before = rss_mb()
print(garbage.trim(), before - rss_mb())
"""


@pytest.mark.skipif(garbage._malloc_trim is None, reason="not glibc")
def test_what_lies_free_between_pieces_in_use_is_given_back() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    trimmed, given_back_mb = told.split()
    assert trimmed == "True"
    assert float(given_back_mb) > 10


def test_a_c_library_without_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_malloc_trim", None)
    assert not garbage.trim()
