"""Stock hosts write what happens to them into the log; nobody reads it here."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("libp2p")
    monkeypatch.setattr(logger, "disabled", False)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)
