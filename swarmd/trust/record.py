"""Standings as bytes for a file and back: JSON with peer ids, so that a person can read it."""

import json
import math
from collections import OrderedDict
from typing import Any

from swarmd.trust.peer_key import key_of, peer_id_of_key
from swarmd.trust.standing import BAN_S_MAX, REASON_CHARS_MAX, Ban, Standing, Standings

VERSION = 1
# 4,096 authors and as many bans of both kinds, 600 bytes each at the most; a longer file is none of ours.
BYTES_MAX = 8 * 2**20
_NUMBERS = ("num_scored", "num_informative", "num_duplicate", "num_copied", "num_bans")
# Not in files of earlier builds.
_LATER = ("num_used", "num_left_out")
_TIMES = ("points", "points_at_s", "banned_until_s")


def encode(standings: Standings, now_s: float) -> bytes:
    """The file's content. Authors come in the order of when they were last seen."""
    authors = [
        {
            "peer_id": peer_id_of_key(author),
            **{name: getattr(one, name) for name in (*_NUMBERS, *_LATER, *_TIMES)},
        }
        for author, one in standings.by_author.items()
    ]
    bans = [
        {
            "peer_id": peer_id_of_key(author),
            "since_s": ban.since_s,
            "until_s": ban.until_s,
            "by_operator": ban.by_operator,
            "reason": ban.reason,
        }
        for author, ban in standings.bans.items()
        if ban.holds(now_s)
    ]
    return json.dumps({"version": VERSION, "authors": authors, "bans": bans}).encode()


def decode_into(standings: Standings, data: bytes, now_s: float) -> None:
    """Take over what a file holds; on an error nothing is taken over.

    A ban for points never lasts longer than such bans do, whatever the clock said when it was written.

    Raises:
        ValueError: this is not what `encode` writes.
    """
    if len(data) > BYTES_MAX:
        raise ValueError(f"{len(data)} bytes, at most {BYTES_MAX}")
    try:
        content = json.loads(data)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r:.20}, this program writes {VERSION}")
        authors = OrderedDict(
            (key_of(_text(entry["peer_id"])), _standing(entry)) for entry in content["authors"]
        )
        bans = {key_of(_text(entry["peer_id"])): _ban(entry, now_s) for entry in content["bans"]}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not the standings of a node ({type(error).__name__})") from None
    while len(authors) > standings.authors_max:
        authors.popitem(last=False)
    standings.by_author, standings.bans = authors, bans


def _standing(entry: dict[str, Any]) -> Standing:
    numbers = {name: _number(entry[name], whole=True) for name in _NUMBERS}
    numbers |= {name: _number(entry.get(name, 0), whole=True) for name in _LATER}
    return Standing(**numbers, **{name: _number(entry[name]) for name in _TIMES})


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
