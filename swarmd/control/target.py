"""The target of a request, in lines of our own: a path, and a query of named fields. Pure; raises BadTarget and nothing else."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Bytes of a target. The longest is a ban: its reason of 200 letters takes 2,400 bytes when every letter is four escaped bytes.
TARGET_BYTES_MAX = 4096
# Four times the fields of the request that has most (a ban).
FIELDS_MAX = 12
# Visible ASCII without `#`: a client keeps a fragment to itself.
_VISIBLE = re.compile(rb"[!-\"$-~]+")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class BadTarget(ValueError):
    """A target that is answered with 400. The text says why, and repeats nothing of the target."""


@dataclass(frozen=True)
class Target:
    """What a request names, decoded."""

    path: str
    query: Mapping[str, str]


def parse_target(raw: bytes) -> Target:
    """The path and the fields of a target in origin form (RFC 9112, 3.2.1): `/path?name=value&name=value`.

    Escapes are decoded after the cut, `+` in the query is a space, and a name without `=` has an empty value.

    Raises:
        BadTarget: it is of another form, too long, has too many fields or one twice, or an escape stands for no text.
    """
    if len(raw) > TARGET_BYTES_MAX:
        raise BadTarget(f"the target is longer than {TARGET_BYTES_MAX} bytes")
    if not raw.startswith(b"/") or not _VISIBLE.fullmatch(raw):
        raise BadTarget("the target is no path of visible ASCII that begins with /")
    path, _, query = raw.partition(b"?")
    return Target(_decoded(path), _fields(query))


def _fields(query: bytes) -> dict[str, str]:
    pieces = query.split(b"&", FIELDS_MAX)
    if len(pieces) > FIELDS_MAX:
        raise BadTarget(f"the query has more than {FIELDS_MAX} fields")
    fields: dict[str, str] = {}
    for piece in filter(None, pieces):
        name, _, value = (_decoded(part) for part in piece.replace(b"+", b" ").partition(b"="))
        if name in fields:
            raise BadTarget("the query has a field twice")
        fields[name] = value
    return fields


def _decoded(raw: bytes) -> str:
    try:
        text = _ESCAPE.sub(_byte, raw).decode()
    except UnicodeDecodeError:
        raise BadTarget("an escape in the target is no UTF-8") from None
    if _CONTROL.search(text):
        raise BadTarget("an escape in the target is a control character")
    return text


def _byte(escape: re.Match[bytes]) -> bytes:
    if escape[1] is None:
        raise BadTarget("a % in the target is not followed by two hexadecimal digits")
    return bytes((int(escape[1], 16),))
