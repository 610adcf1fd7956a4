"""Standings as bytes for a file and back: JSON with peer ids, so that a person can read it."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from swarmd.trust.offences import BAN_S_MAX, OFFENDERS_MAX, Offence
from swarmd.trust.peer_key import key_of, peer_id_of_key
from swarmd.trust.standing import Ban, Standing, Standings

VERSION = 3
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
    """The file's content; 0.2 s for full tables."""
    tables = {name: [_entry(key, one) for key, one in table] for name, table in rows._asdict().items()}
    return json.dumps({"version": VERSION, **tables}).encode()


def decode_into(standings: Standings, data: bytes, now_s: float) -> None:
    """Take over what a file holds into standings that are empty; on an error nothing is taken over.

    A ban for points never lasts longer than such bans do, whatever the clock said when it was written.

    Raises:
        ValueError: this is not what `encode` writes.
    """
    if len(data) > BYTES_MAX:
        raise ValueError(f"{len(data)} bytes, at most {BYTES_MAX}")
    try:
        content = json.loads(data)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r:.20}, this program reads {VERSION}")
        authors = _table(Standing, content["authors"])
        offenders = _table(Offence, content["offenders"])
        bans = {peer: _bounded(ban, now_s) for peer, ban in _table(Ban, content["bans"])}
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{first['loc'][0]} is {first['input']!r:.40}, which does not belong here") from None
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not the standings of a node ({type(error).__name__})") from None
    for author, standing in authors:
        standings.put(author, standing)
    standings.offences.by_peer.update(offenders[-OFFENDERS_MAX:])
    standings.bans = bans


def _entry(key: bytes, one: Standing | Offence | Ban) -> dict[str, object]:
    return {"peer_id": peer_id_of_key(key), **asdict(one)}


def _table(kind: type[Entry], entries: Iterable[dict[str, str]]) -> list[tuple[bytes, Entry]]:
    """The entries by key, each with all fields of its kind and no other type of value."""
    names, adapter = {field.name for field in fields(kind)}, TypeAdapter(kind)
    entries = list(entries)
    if not all(entry.keys() >= names for entry in entries):
        raise KeyError("a field is missing")
    return [(key_of(entry.pop("peer_id")), adapter.validate_python(entry)) for entry in entries]


def _bounded(ban: Ban, now_s: float) -> Ban:
    if ban.by_operator:
        return ban
    return replace(ban, until_s=min(math.inf if ban.until_s is None else ban.until_s, now_s + BAN_S_MAX))
