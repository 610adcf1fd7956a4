"""Fixtures of the tiny policy's tests."""

import sys

import pytest


@pytest.fixture(scope="package", autouse=True)
def _whole_reasoning_gym() -> None:
    """Who was here before may have imported reasoning_gym module by module, past its package; these tests need it whole."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "reasoning_gym"]:
        del sys.modules[name]
