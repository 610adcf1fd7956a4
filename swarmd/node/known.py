"""What a node that starts knows of others: the standings of its last run, and the operator's bans from whichever file has them."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from swarmd import clock
from swarmd.config import Config
from swarmd.errors import StateError
from swarmd.files.aside import set_aside
from swarmd.files.checked import NewerVersion
from swarmd.files.datadir import DataDir
from swarmd.files.reading import read_within
from swarmd.loops.ports import Say
from swarmd.metrics import Metrics
from swarmd.trust.offences import Offences
from swarmd.trust.quotas import QuotaLimits, Quotas
from swarmd.trust.standing import Standings
from swarmd.trust.standings_file import BYTES_MAX, decode_bans, decode_into
from swarmd.trust.trust import Trust

T = TypeVar("T")


def open_trust(config: Config, data_dir: DataDir, metrics: Metrics, say: Say) -> Trust:
    """The trust of a node that starts.

    A damaged file is set aside, counted and told, with what it costs. The operator's bans are in two files: either will do.

    Raises:
        StateError: a later version of this program wrote one of the files.
    """
    settings = config.trust
    standings = Standings(
        proven_rollouts=settings.proven_rollouts,
        ban_points=settings.ban_points if settings.bans == "on" else None,
        offences=Offences(half_life_s=settings.ban_half_life_s),
    )
    now_s = clock.now_ms() / 1000
    _read_both(standings, data_dir, now_s, metrics, say)
    if banned := standings.banned_now(now_s):
        say(f"✓ standings  of {standings.num_authors} authors, {len(banned)} banned: swarmd peers bans")
    limits = QuotaLimits(
        settings.quota_bytes_per_s,
        settings.quota_tokens_per_s,
        settings.quota_cpu_ms_per_s,
        settings.quota_burst_s,
    )
    return Trust(standings, Quotas(limits if settings.quotas == "on" else None, standings.proven))


def _read_both(standings: Standings, data_dir: DataDir, now_s: float, metrics: Metrics, say: Say) -> None:
    def damaged(path: Path, what: str, text: str) -> None:
        metrics.state_damaged.labels(what).inc()
        say(f"! {what:<10} {path.name} {text}")
        standings.changed = True  # so that both files are written again soon

    has_bans_file, why = _read(data_dir.standings, lambda data: decode_into(standings, data, now_s))
    bans, why_bans = _read(data_dir.bans, decode_bans)
    if not why and has_bans_file is None and bans is not None:
        why = "is missing"
    if not why_bans and bans is None and has_bans_file:
        # A node that was killed at its very first save has no such file, and no bans.
        why_bans = "is missing" if any(ban.by_operator for ban in standings.bans.values()) else ""
    if why:
        own = "your own bans are lost too" if bans is None else f"your own bans hold ({len(bans)})"
        text = "what was known of authors is lost, and bans for points are lifted"
        damaged(data_dir.standings, "standings", f"{why}: {text}; {own}")
    if why_bans:
        own = (
            "your own bans are lost"
            if has_bans_file is None
            else "your own bans are in the standings too, and hold"
        )
        damaged(data_dir.bans, "bans", f"{why_bans}: {own}")
    for peer, ban in (bans or {}).items():
        if (held := standings.bans.get(peer)) is None or not held.by_operator:
            standings.bans[peer] = ban


def _read(path: Path, decode: Callable[[bytes], T]) -> tuple[T | None, str]:
    """What is in a file, if it can be read; else why not, and where it lies now. A missing file has no reason.

    Raises:
        StateError: a later version of this program wrote it.
    """
    try:
        return decode(read_within(path, BYTES_MAX)), ""
    except FileNotFoundError:
        return None, ""
    except NewerVersion as error:
        raise StateError(
            f"{path} cannot be used: {error}",
            "a later version of swarmd wrote it",
            "upgrade swarmd, or move the file away: all authors then start anew",
        ) from None
    except (OSError, ValueError) as error:
        try:
            return None, f"cannot be read ({error}), and is now {set_aside(path, 'corrupt').name}"
        except OSError:
            return None, f"cannot be read ({error})"
