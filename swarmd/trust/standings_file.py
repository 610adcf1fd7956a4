"""Standings as bytes for a file and back: JSON with peer ids, so that a person can read it."""

import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from swarmd.trust.offences import BAN_S_MAX, OFFENDERS_MAX, Offence
from swarmd.trust.peer_key import key_of, peer_id_of_key
from swarmd.trust.standing import REASON_CHARS_MAX, Ban, Standing, Standings

VERSION = 3
# 4,096 authors, as many offenders and 8,192 bans are 4 MB; the reasons of 4,096 operator bans, 200 letters of 12 bytes as JSON
# writes them at the longest, 10 MB more. A longer file is none of ours.
BYTES_MAX = 16 * 2**20
_COUNTS = ("num_scored", "num_informative", "num_duplicate", "num_copied", "num_used", "num_left_out")
_POINTS = ("points", "points_at_s", "banned_until_s")


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
    content = {
        "version": VERSION,
        "authors": [_entry(author, one, (*_COUNTS, "proof")) for author, one in rows.authors],
        "offenders": [_entry(peer, one, ("num_bans", *_POINTS)) for peer, one in rows.offenders],
        "bans": [
            _entry(peer, ban, ("since_s", "until_s", "by_operator", "reason")) for peer, ban in rows.bans
        ],
    }
    return json.dumps(content).encode()


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
        version = content["version"]
        if version not in (2, VERSION):
            raise ValueError(f"version {version!r:.20}, this program reads 2 and {VERSION}")
        of_author = _standing if version == VERSION else _standing_2
        authors = [(_key(entry), of_author(entry)) for entry in content["authors"]]
        offenders = [(_key(entry), _offence(entry)) for entry in content["offenders"]]
        bans = {_key(entry): _ban(entry, now_s) for entry in content["bans"]}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not the standings of a node ({type(error).__name__})") from None
    for author, standing in authors:
        standings.put(author, standing)
    standings.offences.by_peer.update(offenders[-OFFENDERS_MAX:])
    standings.bans = bans


def _entry(key: bytes, one: Standing | Offence | Ban, names: Iterable[str]) -> dict[str, Any]:
    return {"peer_id": peer_id_of_key(key), **{name: getattr(one, name) for name in names}}


def _key(entry: dict[str, Any]) -> bytes:
    return key_of(_text(entry["peer_id"]))


def _standing(entry: dict[str, Any]) -> Standing:
    counts = {name: _number(entry[name], whole=True) for name in _COUNTS}
    return Standing(**counts, proof=_number(entry["proof"]))


def _standing_2(entry: dict[str, Any]) -> Standing:
    """Of version 2, which counted every rollout alike: those with signal had answers, and prove 1 each; the others nothing."""
    return _standing({**entry, "proof": entry["num_informative"]})


def _offence(entry: dict[str, Any]) -> Offence:
    return Offence(
        num_bans=_number(entry["num_bans"], whole=True), **{name: _number(entry[name]) for name in _POINTS}
    )


def _ban(entry: dict[str, Any], now_s: float) -> Ban:
    until_s = None if entry["until_s"] is None else _number(entry["until_s"])
    if type(entry["by_operator"]) is not bool:
        raise ValueError("by_operator is true or false")
    if not entry["by_operator"]:
        until_s = min(until_s if until_s is not None else math.inf, now_s + BAN_S_MAX)
    return Ban(_number(entry["since_s"]), until_s, entry["by_operator"], _text(entry["reason"]))


def _number(value: Any, *, whole: bool = False) -> Any:
    if type(value) not in ((int,) if whole else (int, float)) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r:.40} is not a number that belongs here")
    return value


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > REASON_CHARS_MAX:
        raise ValueError(f"{value!r:.40} is not a text that belongs here")
    return value
