"""Text for a terminal and a log, whoever wrote it: no control characters, no escapes, no bidi overrides, no end without bound.

Peers choose some of what a node shows: agents, addresses, policy names, and through errors parts of completions. Where such a
string is read it is bounded already; this is the last gate, for what comes by a way that nobody thought of.
"""

import logging
from collections.abc import Sequence

# A screen of 200 lines of 100 characters. Half cuts the traceback of a nested failure, double only scrolls.
READABLE_CHARS_MAX = 20_000


def printable(text: str, length_max: int = 100) -> str:
    """One line for a table: what cannot be printed becomes `?`, what is longer than `length_max` characters is cut."""
    return "".join(c if c.isprintable() else "?" for c in text[:length_max])


def readable(text: str) -> str:
    """Several lines for a message: what cannot be printed is written as Python escapes it, the middle of a long text left out."""
    if len(text) > READABLE_CHARS_MAX:
        half = READABLE_CHARS_MAX // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return "".join(c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table's rows as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


class PrintableFormatter(logging.Formatter):
    """Log records as `readable` text. Every line but a record's first is indented, so that none can pass for another record."""

    def format(self, record: logging.LogRecord) -> str:
        return readable(super().format(record)).replace("\n", "\n  ")
