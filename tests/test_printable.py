"""Whatever a stranger chose: nothing of it commands a terminal, forges a line of the log, or goes on for a megabyte."""

import io
import json
import logging

import msgpack
import pytest

from swarmd.cli import main as cli
from swarmd.cli.look import peers_table
from swarmd.contribute.lines import blank
from swarmd.errors import LocalError
from swarmd.printable import READABLE_CHARS_MAX, PrintableFormatter, printable, readable
from swarmd.swarm.exchange import BadFrame, decode_body

HOSTILE = {
    "an ANSI escape": "\x1b[2J\x1b]0;owned\x07",
    "a one-byte CSI": "\x9b31m",
    "a line feed": "x\n2026-01-01 00:00:00 ERROR swarmd: all is lost",
    "a carriage return": "x\rhealthy",
    "a bidi override": "\u202egnp.exe",
    "bidi isolates": "\u2066x\u2069",
    "a zero-width joiner": "ad\u200dmin",
    "NUL and backspace": "\x00\x08\x08\x08",
    "half a surrogate pair": "\ud800",
    "a line separator": "x\u2028y",
    "a tag beyond the first plane": "\U000e0041",
    "a megabyte": "x" * 1_000_000,
}
strangers = pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))


def is_safe(text: str, lines: bool = False) -> bool:
    return (text.replace("\n", "") if lines else text).isprintable() and len(text) < 200_000


@strangers
def test_a_cell_is_one_short_printable_line(text):
    assert is_safe(printable(text))
    assert len(printable(text)) <= 100


@strangers
def test_a_message_keeps_its_lines_and_nothing_else(text):
    shown = readable(f"what\n{text}")
    assert is_safe(shown, lines=True)
    assert len(shown) < 2 * READABLE_CHARS_MAX
    shown.encode()


def test_a_message_says_what_was_escaped_and_left_out():
    assert readable("naïve ✓\n\x1b[31m") == "naïve ✓\n\\x1b[31m"
    assert "[980000 characters left out]" in readable("x" * 1_000_000)


@strangers
def test_a_log_record_cannot_pass_for_two(text):
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(PrintableFormatter("%(levelname)s %(name)s: %(message)s"))
    try:
        raise ValueError(text)
    except ValueError as error:
        handler.handle(
            logging.LogRecord(
                "swarmd", logging.WARNING, "", 0, "not scored: %s", (LocalError("x", text),), None
            )
        )
        handler.handle(
            logging.LogRecord("swarmd", logging.ERROR, "", 0, "failed", (), (type(error), error, None))
        )
    records = [line for line in out.getvalue().splitlines() if not line.startswith("  ")]
    assert records == ["WARNING swarmd: not scored: x", "ERROR swarmd: failed"]
    assert is_safe(out.getvalue(), lines=True)


@strangers
def test_an_error_that_ends_a_command_is_readable(text, capsys):
    with pytest.raises(SystemExit):
        cli._fail(LocalError("what", text))
    assert is_safe(capsys.readouterr().err, lines=True)


@strangers
def test_an_unexpected_error_is_readable(text, capsys, monkeypatch):
    def fail(**options):
        raise KeyError(text) if len(text) % 2 else RuntimeError(text)

    monkeypatch.setattr(cli.swarmd, "main", fail)
    with pytest.raises(SystemExit):
        cli.main()
    assert is_safe(capsys.readouterr().err, lines=True)


@strangers
def test_a_peer_is_one_row(text):
    row = {
        "peer_id": text,
        "direction": text,
        "rtt_s": None,
        "standing": text,
        "accepted": 1,
        "ignored": 0,
        "rejected": 0,
        "rollouts_held": 0,
        "rollouts_used": 0,
        "agent": text,
        "address": text,
    }
    lines = peers_table([row]).split("\n")
    assert len(lines) == 2
    assert all(is_safe(line) for line in lines)


@strangers
def test_a_question_is_one_line_and_reads_back(text):
    line = blank("gcd", 1, text)
    assert line.isprintable()
    assert json.loads(line)["question"] == text


@strangers
def test_an_agent_is_harmless_as_soon_as_it_is_read(text):
    body = msgpack.packb({"addresses": [text] * 40, "agent": text}, unicode_errors="surrogatepass")
    if text == HOSTILE["half a surrogate pair"]:
        with pytest.raises(BadFrame):
            decode_body(body)
        return
    frame = decode_body(body)
    assert frame.addresses == []
    assert len(frame.agent) <= 64
    assert frame.agent.isascii()
    assert is_safe(frame.agent)
