"""T23: remote misbehaviour writes WARNING and ERROR lines, so any peer can fill the disk; py-libp2p is silenced, counters remain.

The connection code logs on the *root* logger, which no level of the `libp2p` logger reaches. A filter drops these records by file.
"""

import logging
import os


def silence_libp2p() -> None:
    """Let nothing below CRITICAL out of py-libp2p; calling it again changes nothing."""
    logging.getLogger("libp2p").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _not_from_libp2p not in root.filters:
        root.addFilter(_not_from_libp2p)


def _not_from_libp2p(record: logging.LogRecord) -> bool:
    return f"{os.sep}libp2p{os.sep}" not in record.pathname or record.levelno >= logging.CRITICAL
