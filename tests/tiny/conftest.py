"""Fixtures of the tiny policy's tests."""

import pytest

from swarmd.questions.gym import forget_package


@pytest.fixture(scope="package", autouse=True)
def _whole_reasoning_gym() -> None:
    """Who was here before may have imported reasoning_gym module by module, past its package; these tests need it whole."""
    forget_package()
