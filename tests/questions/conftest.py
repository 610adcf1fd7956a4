"""Fixtures of the scorer's tests."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="package", autouse=True)
def _only_our_modules() -> Iterator[None]:
    """These tests import reasoning_gym module by module, past its package; whoever comes after must find it whole."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "reasoning_gym"]:
        del sys.modules[name]


@pytest.fixture
def anybodys_folder() -> Iterator[Path]:
    """A folder that every user may write to: pytest's own is its user's alone, and a worker of root's is nobody."""
    with tempfile.TemporaryDirectory(prefix="swarmd-test-") as folder:
        path = Path(folder)
        path.chmod(0o777)
        yield path
