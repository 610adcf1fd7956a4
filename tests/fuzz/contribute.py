"""Target: the file of answers that `swarmd contribute FILE` reads, which people pass to each other."""

import io

from swarmd.contribute.lines import LINES_MAX, Line, Problem, read_lines
from tests.fuzz.finding import require
from tests.fuzz.meter import METER


def check(data: bytes) -> None:
    """Read the lines.

    Raises:
        Finding: a promise is broken.
        Exception: whatever the reader raised; it raises nothing.
    """
    lines, problems = METER.timed(lambda: read_lines(io.BytesIO(data)))
    require(len(lines) <= LINES_MAX, f"{len(lines)} lines")
    for problem in problems:
        _check_problem(problem)
    for line in lines:
        _check_line(line)


def _check_problem(problem: Problem) -> None:
    require(problem.what.isprintable(), f"{problem.what!r:.400}")
    require(len(problem.what) < 400, f"a problem of {len(problem.what)} characters")


def _check_line(line: Line) -> None:
    require(0 <= line.counter < 2**53, f"counter {line.counter}")
    require(len(line.digest) == 32, "digest")
    for text in line.completions:
        require("\x00" not in text, "NUL in an answer")
        text.encode()  # what cannot be sent is not taken
