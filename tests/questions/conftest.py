"""Fixtures of the scorer's tests."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _only_our_modules() -> Iterator[None]:
    """These tests import reasoning_gym module by module, past its package; whoever comes after must find it whole."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "reasoning_gym"]:
        del sys.modules[name]
