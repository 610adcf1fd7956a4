"""The file that is filled in: JSON lines, written when questions are asked and read strictly, every fault with its line number.

A line names a question by its address (dataset name, counter) and holds the answers in `completions`. Its other fields help whoever
answers, and are not believed.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, NoReturn, TypeVar

from swarmd.protocol.types import INTEGER_MAX

# No swarm takes a rollout of more than 4 MiB (`Limits.body_bytes_max`), the shipped ones 256 KiB. Twice that leaves room for
# escapes.
LINE_BYTES_MAX = 8 * 2**20
# 64 full messages, which take half a minute to send.
LINES_MAX = 4096
FILE_BYTES_MAX = 256 * 2**20
_KEYS = ("dataset", "counter", "completions", "question")
_NAMES: dict[type, str] = {str: "a string", int: "an integer", list: "a list"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it was read. `question` is what the file shows as its text, or None."""

    number: int
    dataset: str
    counter: int
    question: str | None
    completions: tuple[str, ...]

    @property
    def digest(self) -> bytes:
        """SHA-256 over the answers, in their order."""
        return hashlib.sha256(json.dumps(self.completions).encode()).digest()


class Problem(NamedTuple):
    """Why a line cannot be used; the text is safe for a terminal."""

    line: int
    what: str


def blank(dataset: str, counter: int, question: str) -> str:
    """The line of a question that nobody has answered yet. Letters stay as they are; what a terminal would obey is escaped."""
    fields = {"dataset": dataset, "counter": counter, "question": question, "completions": []}
    line = json.dumps(fields, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def read_lines(file: BinaryIO) -> tuple[list[Line], list[Problem]]:
    """All lines that can be read, and what is wrong with the others; empty lines are passed over.

    Reading ends at the first line, or at the first byte of the file, over the limit.
    """
    lines: list[Line] = []
    problems: list[Problem] = []
    left, number = FILE_BYTES_MAX, 0
    while data := file.readline(min(LINE_BYTES_MAX, left) + 1):
        number, left = number + 1, left - len(data)
        if left < 0 or len(data) > LINE_BYTES_MAX or len(lines) >= LINES_MAX:
            limits = f"{LINE_BYTES_MAX} bytes a line, {LINES_MAX} lines, {FILE_BYTES_MAX} bytes in all"
            problems.append(Problem(number, f"over a limit ({limits}); cut the file into several"))
            break
        if not data.strip():
            continue
        try:
            lines.append(_line(number, data))
        except _NotALineError as error:
            problems.append(Problem(number, str(error)))
    return lines, problems + _repeated(lines)


class _NotALineError(ValueError):
    """The message says why."""


def _line(number: int, data: bytes) -> Line:
    fields = _object(data)
    if unknown := sorted(set(fields) - set(_KEYS)):
        raise _NotALineError(f"unknown key {unknown[0]!r:.60}; known are {', '.join(_KEYS)}")
    if missing := [key for key in _KEYS[:3] if key not in fields]:
        raise _NotALineError(f"the key {missing[0]!r} is missing")
    dataset, counter = _typed(fields, "dataset", str), _typed(fields, "counter", int)
    completions = _typed(fields, "completions", list)
    question = _typed(fields, "question", str) if "question" in fields else None
    if not 0 <= counter <= INTEGER_MAX:
        raise _NotALineError(f"the counter is {_shown(counter)}, not from 0 to {INTEGER_MAX}")
    for place, text in enumerate(completions, 1):
        if not isinstance(text, str):
            raise _NotALineError(f"completion {place} is {_shown(text)}, not a string")
        _require_text(text, f"completion {place}")
    return Line(number, dataset, counter, question, tuple(completions))


def _typed(fields: Mapping[str, object], key: str, kind: type[T]) -> T:
    value = fields[key]
    if not isinstance(value, kind) or isinstance(value, bool):  # true is no counter
        raise _NotALineError(f"{key!r} is {_shown(value)}, not {_NAMES[kind]}")
    return value


def _object(data: bytes) -> dict[str, object]:
    try:
        value = json.loads(data.decode(), object_pairs_hook=_each_once, parse_constant=_no_constant)
    except _NotALineError:
        raise
    except UnicodeDecodeError as error:
        raise _NotALineError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise _NotALineError("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _NotALineError(f"not JSON at column {error.colno}: {error.msg}") from None
    except ValueError:
        raise _NotALineError("not JSON: an integer of thousands of digits") from None
    if not isinstance(value, dict):
        raise _NotALineError("not a JSON object")
    return value


def _each_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _NotALineError("a key occurs twice")
    return fields


def _no_constant(name: str) -> NoReturn:
    raise _NotALineError(f"{name} is no JSON value")


def _require_text(text: str, where: str) -> None:
    if "\x00" in text:
        raise _NotALineError(f"{where} holds a NUL at character {text.index(chr(0)) + 1}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _NotALineError(f"{where} holds half a surrogate pair at character {error.start + 1}") from None


def _shown(value: object) -> str:
    return f"{json.dumps(value):.40}"  # in ASCII, whatever was written


def _repeated(lines: Sequence[Line]) -> list[Problem]:
    first: dict[int, int] = {}
    problems = []
    for line in lines:
        if line.counter in first:
            problems.append(
                Problem(line.number, f"counter {line.counter} stands on line {first[line.counter]} too")
            )
        first.setdefault(line.counter, line.number)
    return problems
