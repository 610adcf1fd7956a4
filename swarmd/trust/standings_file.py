"""Standings as bytes for files and back: JSON with peer ids, so that a person can read it, and with a checksum.

The operator's bans are in both files: what damages one of them must not let somebody in whom the operator has shut out.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from swarmd.files.checked import decode_checked, encode_checked
from swarmd.trust.offences import BAN_S_MAX, OFFENDERS_MAX, Offence
from swarmd.trust.peer_key import key_of, peer_id_of_key
from swarmd.trust.standing import Ban, Standing, Standings

# Version 3 had no checksum.
VERSION, _UNCHECKED = 4, 3
BANS_VERSION = 1
# 4,096 authors, as many offenders and 8,192 bans are 4 MB; the reasons of 4,096 operator bans, 200 letters of 12 bytes as JSON
# writes them at the longest, 10 MB more. A longer file is none of ours.
BYTES_MAX = 16 * 2**20

Entry = TypeVar("Entry", Standing, Offence, Ban)


class Rows(NamedTuple):
    """A copy of the tables' rows, taken in a moment; `encode` then works in a thread while the tables change."""

    authors: list[tuple[bytes, Standing]]
    offenders: list[tuple[bytes, Offence]]
    bans: list[tuple[bytes, Ban]]


def rows_of(standings: Standings, now_s: float) -> Rows:
    """Everything but the bans that have run out. Authors and offenders come in the order of when they were last seen."""
    return Rows(
        list(standings.authors()),
        list(standings.offences.by_peer.items()),
        [(peer, ban) for peer, ban in standings.bans.items() if ban.holds(now_s)],
    )


def encode(rows: Rows) -> bytes:
    """The content of the file of standings; 0.2 s for full tables."""
    tables = {name: [_entry(key, one) for key, one in table] for name, table in rows._asdict().items()}
    return encode_checked(VERSION, tables)


def encode_bans(rows: Rows) -> bytes:
    """The content of the file of the operator's bans."""
    bans = [_entry(key, ban) for key, ban in rows.bans if ban.by_operator]
    return encode_checked(BANS_VERSION, {"bans": bans})


def decode_into(standings: Standings, data: bytes, now_s: float) -> bool:
    """Take over what a file holds into standings that are empty; on an error nothing is taken over.

    A ban for points never lasts longer than such bans do, whatever the clock said when it was written.

    Returns:
        whether the node that wrote it kept a file of bans too.

    Raises:
        NewerVersion: a later program wrote it. ValueError: this is not what `encode` writes.
    """
    with _explained("the standings of a node"):
        content = _content(data, VERSION, _UNCHECKED)
        authors = _table(Standing, content["authors"])
        offenders = _table(Offence, content["offenders"])
        bans = {peer: _bounded(ban, now_s) for peer, ban in _table(Ban, content["bans"])}
    for author, standing in authors:
        standings.put(author, standing)
    standings.offences.by_peer.update(offenders[-OFFENDERS_MAX:])
    standings.bans = bans
    return content["version"] != _UNCHECKED


def decode_bans(data: bytes) -> dict[bytes, Ban]:
    """The operator's bans. Raises as `decode_into`."""
    with _explained("an operator's bans"):
        bans = _table(Ban, _content(data, BANS_VERSION)["bans"])
        if not all(ban.by_operator for _, ban in bans):
            raise ValueError("a ban in it is not the operator's")
    return dict(bans)


def _content(data: bytes, version: int, unchecked: int = 0) -> dict[str, object]:
    if len(data) > BYTES_MAX:
        raise ValueError(f"{len(data)} bytes, at most {BYTES_MAX}")
    return decode_checked(data, version, unchecked=unchecked)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Errors of what was read as a ValueError in words."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{first['loc'][0]} is {first['input']!r:.40}, which does not belong here") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not {what} ({type(error).__name__})") from None


def _entry(key: bytes, one: Standing | Offence | Ban) -> dict[str, object]:
    return {"peer_id": peer_id_of_key(key), **asdict(one)}


def _table(kind: type[Entry], entries: object) -> list[tuple[bytes, Entry]]:
    """The entries by key, each with all fields of its kind and no other type of value."""
    names, adapter = {field.name for field in fields(kind)}, TypeAdapter(kind)
    if not isinstance(entries, list):
        raise TypeError("no list")
    if not all(entry.keys() >= names for entry in entries):
        raise KeyError("a field is missing")
    return [(key_of(entry.pop("peer_id")), adapter.validate_python(entry)) for entry in entries]


def _bounded(ban: Ban, now_s: float) -> Ban:
    if ban.by_operator:
        return ban
    return replace(ban, until_s=min(math.inf if ban.until_s is None else ban.until_s, now_s + BAN_S_MAX))
