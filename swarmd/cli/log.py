"""The log of a running node, on stderr."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable

from swarmd.fair.bucket import Bucket
from swarmd.printable import PrintableFormatter
from swarmd.recent import Recent

# Of each statement: a disk that takes no writes would otherwise fill the log with one line a second, for weeks.
LINES_AT_ONCE, LINE_EVERY_S = 5, 600.0
STATEMENTS_MAX = 1024


def log_to_stderr(*, verbose: bool) -> None:
    """From now on warnings and errors are printed, or with `verbose` everything, however often."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    if not verbose:
        handler.addFilter(SeldomRepeated())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[handler])


class SeldomRepeated(logging.Filter):
    """Lets each statement of the code log `LINES_AT_ONCE` lines, then one in `LINE_EVERY_S`, which says how many were left out.

    A statement whose lines are of different things names them: `log.warning(…, extra={"of": code})`; each has its own lines then.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._buckets: Recent[object, Bucket] = Recent(STATEMENTS_MAX)
        self._num_left_out: Counter[object] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged; one after which others were left out says so."""
        statement, now_s = (record.pathname, record.lineno, getattr(record, "of", "")), self._now_s()
        if statement not in self._buckets:
            self._buckets[statement] = Bucket.full(1 / LINE_EVERY_S, LINES_AT_ONCE, now_s)
        if not self._buckets[statement].take(1, now_s):
            self._num_left_out[statement] += 1
            return False
        if num := self._num_left_out.pop(statement, 0):
            record.msg, record.args = f"{record.getMessage()} (and {num} more like it before)", ()
        return True
