"""Fixtures of the scorer's tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmd.questions.gym import forget_package


@pytest.fixture(scope="package", autouse=True)
def _only_our_modules() -> Iterator[None]:
    """These tests import reasoning_gym module by module, past its package; whoever comes after must find it whole."""
    yield
    forget_package()


@pytest.fixture
def anybodys_folder() -> Iterator[Path]:
    """A folder that every user may write to: pytest's own is its user's alone, and a worker of root's is nobody."""
    with tempfile.TemporaryDirectory(prefix="swarmd-test-") as folder:
        path = Path(folder)
        path.chmod(0o777)
        yield path
