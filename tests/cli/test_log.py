"""Repeated lines of the log."""

import logging

import pytest

from swarmd.cli.log import LINE_EVERY_S, LINES_AT_ONCE, STATEMENTS_MAX, SeldomRepeated


class Log:
    """A log with a clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.filter = SeldomRepeated(lambda: self.now_s)
        self.lines: list[str] = []

    def say(self, message: str, *args: object, line: int = 1, of: str = "") -> None:
        record = logging.LogRecord("swarmd", logging.WARNING, "a.py", line, message, args, None)
        if of:
            record.of = of
        if self.filter.filter(record):
            self.lines.append(record.getMessage())


def test_what_lasts_for_a_day_is_said_some_hundred_times_and_all_are_counted() -> None:
    log = Log()
    for log.now_s in range(86_400):
        log.say("round %d is not saved", log.now_s)
    assert log.lines[:LINES_AT_ONCE] == [f"round {number} is not saved" for number in range(LINES_AT_ONCE)]
    assert len(log.lines) == LINES_AT_ONCE + 86_400 // LINE_EVERY_S - 1
    told = [int(line.split("(and ")[1].split()[0]) for line in log.lines[LINES_AT_ONCE:]]
    assert sum(told) + len(log.lines) == pytest.approx(86_400, abs=LINE_EVERY_S)


def test_a_statement_does_not_silence_another_one() -> None:
    log = Log()
    for _ in range(100):
        log.say("full")
    log.say("broken", line=2)
    assert log.lines[-1] == "broken"


def test_a_statement_of_several_things_says_each() -> None:
    log = Log()
    for _ in range(100):
        log.say("%s: look", "disk_low", of="disk_low")
    log.say("%s: look", "clock_off", of="clock_off")
    assert log.lines[-1] == "clock_off: look"


def test_what_is_remembered_is_bounded() -> None:
    log = Log()
    for number in range(3 * STATEMENTS_MAX):
        log.say("text", line=number)
    assert len(log.lines) == 3 * STATEMENTS_MAX
    assert len(log.filter._buckets) == STATEMENTS_MAX


def test_the_rare_line_is_as_it_was() -> None:
    log = Log()
    for log.now_s in range(0, 100_000, 601):
        log.say("100%% of %s", "them")
    assert set(log.lines) == {"100% of them"}
