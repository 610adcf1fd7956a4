"""T23: peers cannot write into our log."""

import logging

import libp2p.network.connection.swarm_connection as root_logging_module
import pytest

from swarmd.swarm.hardening.quiet_logs import silence_libp2p
from tests.swarm.hardening.kit import HARDENED, STOCK, both


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record)


@pytest.fixture
def lines(monkeypatch):
    """The lines that would be written; the loggers are put back afterwards."""
    root, library, handler = logging.getLogger(), logging.getLogger("libp2p"), Lines()
    monkeypatch.setattr(library, "propagate", False)  # as the library has it
    monkeypatch.setattr(root, "filters", [])
    library.setLevel(logging.WARNING)
    for logger in (root, library):
        logger.addHandler(handler)
    yield handler.lines
    for logger in (root, library):
        logger.removeHandler(handler)


def say(path, level=logging.WARNING):
    root = logging.getLogger()
    root.handle(root.makeRecord("root", level, path, 1, "peer-controlled text", (), None))


@both
def test_libp2p_does_not_write_lines_unless_stock(kind, lines):
    if kind == HARDENED:
        silence_libp2p()
    logging.getLogger("libp2p.pubsub.gossipsub").error("peer-controlled text")
    say(root_logging_module.__file__)
    assert len(lines) == (2 if kind == STOCK else 0)


def test_our_own_lines_are_written(lines):
    silence_libp2p()
    logging.getLogger("swarmd").error("ours")
    say("/home/me/swarmd/swarm/host.py")
    assert len(lines) == 2


def test_silencing_twice_is_silencing_once(lines):
    silence_libp2p()
    silence_libp2p()
    assert len(logging.getLogger().filters) == 1


def test_critical_lines_pass(lines):
    silence_libp2p()
    say(root_logging_module.__file__, logging.CRITICAL)
    assert len(lines) == 1
