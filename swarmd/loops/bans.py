"""Bans: the network process tells what peers did wrong. The daemon bans them, tells that process, and keeps the list on disk.

The daemon owns the list. The network process gets the whole list, at its start by its arguments and after each change from here.
Neither a restart nor a lost call leaves a hole.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import trio

from swarmd.clients.network import Network
from swarmd.errors import LocalError
from swarmd.loops.ports import NowMs, RunBlocking
from swarmd.loops.shown import AuthorsShown, Shown
from swarmd.metrics import Metrics
from swarmd.trust.evidence import POINTS
from swarmd.trust.peer_key import key_of, peer_id_of_key
from swarmd.trust.standing import Ban, Standings
from swarmd.trust.standings_file import Rows, encode, encode_bans, rows_of

log = logging.getLogger(__name__)
# Seconds between two looks: how soon a peer that does wrong is banned.
TICK_S = 1.0
# Seconds between two saves. A kill forgets the rollouts scored since; bans are saved at once, or after the rest below.
SAVE_S = 30.0
# After a save, wait ten times its duration before the next one. An operator's ban is saved at once.
REST = 10.0
# Seconds for the calls. A call waits while the network process is being replaced; saving and showing must not.
CALL_S_MAX = 10.0
# Bans for points that the log names in a second. Fresh keys cost nothing, and a line for each would fill the log.
SHOWN_MAX = 3


@dataclass
class Bans:
    """Keeps the standings. `save` writes their file and `save_bans` that of the operator's bans, both blocking. `network` is None
    for a node alone; `own` is this node's key.

    Its many fields are what it is given, what it told the network last, and how the last save went.
    """

    standings: Standings
    own: bytes
    network: Network | None
    save: Callable[[bytes], None]
    save_bans: Callable[[bytes], None]
    run_blocking: RunBlocking
    shown: Shown
    metrics: Metrics
    now_ms: NowMs
    _told: tuple[int, frozenset[bytes]] | None = None
    _saved: bytes = b""
    _saved_bans: bytes = b""
    _saved_at_s: float = 0.0
    _save_took_s: float = 0.0
    _saving: trio.Lock = field(default_factory=trio.Lock)
    _wake: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Once a second, and at once after a change by the operator; the last state is written at the end."""
        self._saved_at_s = trio.current_time()
        try:
            while True:
                self._wake = trio.Event()
                await self.once()
                with trio.move_on_after(TICK_S):
                    await self._wake.wait()
        finally:
            try:
                self._write(rows_of(self.standings, self._now_s))
            except (OSError, LocalError) as error:
                log.warning("the standings could not be written: %s", error)

    async def once(self) -> None:
        """Hear, ban, tell, keep, show."""
        if self.network is not None and self.network.worker.up:
            with trio.move_on_after(CALL_S_MAX):
                await self._exchange(self.network)
        since_s = trio.current_time() - self._saved_at_s
        if since_s >= (REST * self._save_took_s if self.standings.changed else SAVE_S):
            try:
                await self._keep()
            except (OSError, LocalError) as error:
                log.warning("the standings could not be written: %s", error)
        self._show()

    async def ban(self, key: bytes, *, for_s: float | None, reason: str) -> Ban:
        """Ban for the operator; on disk when this returns.

        Raises:
            ValueError: there are too many bans.
            OSError, LocalError: it holds, but could not be written.
        """
        ban = self.standings.ban(key, self._now_s, for_s=for_s, reason=reason)
        self.metrics.trust_bans.labels("operator").inc()
        await self._after_a_change()
        return ban

    async def unban(self, key: bytes) -> bool:
        """Lift a ban of any kind, with the points behind it; whether there was one. Raises as `ban`."""
        found = self.standings.unban(key, self._now_s)
        await self._after_a_change()
        return found

    def listed(self) -> list[dict[str, object]]:
        now_s = self._now_s
        self.standings.banned_now(now_s)
        return [
            {
                "peer_id": peer_id_of_key(key),
                "by": "operator" if ban.by_operator else "points",
                "reason": ban.reason,
                "since_s": ban.since_s,
                "left_s": None if ban.until_s is None else ban.until_s - now_s,
            }
            for key, ban in self.standings.bans.items()
        ]

    def standing_of(self, peer_id: str) -> Literal["new", "proven", "banned"]:
        try:
            key = key_of(peer_id)
        except ValueError:
            return "new"
        if self.standings.banned(key, self._now_s):
            return "banned"
        return "proven" if self.standings.proven(key) else "new"

    @property
    def _now_s(self) -> float:
        return self.now_ms() / 1000

    async def _after_a_change(self) -> None:
        self._wake.set()
        self._show()
        await self._keep()

    async def _exchange(self, network: Network) -> None:
        try:
            num_bans = 0
            for key, evidence, num in await network.accusations():
                ban = self._accuse(key, evidence, num)
                num_bans += ban is not None
                if ban is not None and num_bans <= SHOWN_MAX:
                    lasts_s = (ban.until_s or 0) - ban.since_s
                    log.warning("%s is banned for %.0f s: %s", peer_id_of_key(key), lasts_s, evidence)
            if num_bans > SHOWN_MAX:
                log.warning("%d more were banned in the same second", num_bans - SHOWN_MAX)
            # A new process began with the bans of that moment, and a call that was cut short may not have arrived.
            banned = frozenset(self.standings.banned_now(self._now_s))
            wanted = network.worker.num_restarts, banned
            if wanted != self._told:
                self._told = None
                await network.ban(sorted(banned))
                self._told = wanted
        except LocalError as error:
            log.debug("the network process does not answer: %s", error)

    def _accuse(self, key: bytes, told: str, num: int) -> Ban | None:
        """The ban that this got the peer, if any."""
        evidence = next((kind for kind in POINTS if kind == told), None)
        if evidence is None or num < 1:
            log.error("the network process reports what is no evidence: %.40r", told)
            return None
        self.metrics.trust_evidence.labels(evidence).inc(num)
        if key == self.own:  # somebody else with our identity; a ban would be on ourselves
            return None
        ban = self.standings.accuse(key, evidence, self._now_s, num)
        if ban is None:
            return None
        self.metrics.trust_bans.labels("points").inc()
        return ban

    async def _keep(self) -> None:
        async with self._saving:
            self.standings.changed, self._saved_at_s = False, trio.current_time()
            try:
                await self.run_blocking(self._write, rows_of(self.standings, self._now_s))
            except BaseException:
                self.standings.changed = True
                raise
            finally:
                self._save_took_s = trio.current_time() - self._saved_at_s

    def _write(self, rows: Rows) -> None:
        """Write what changed. The bans come last: where their file is missing, the standings have them."""
        if (content := encode(rows)) != self._saved:
            self.save(content)
            self._saved = content
        if (content := encode_bans(rows)) != self._saved_bans:
            self.save_bans(content)
            self._saved_bans = content

    def _show(self) -> None:
        standings = self.standings
        num_banned = len(standings.banned_now(self._now_s))
        num_authors, num_proven = standings.num_authors, standings.num_proven
        num_new = num_authors - num_proven
        for standing, num in (("new", num_new), ("proven", num_proven), ("banned", num_banned)):
            self.metrics.trust_authors.labels(standing).set(num)
        self.shown.authors = AuthorsShown(num_authors, num_proven, num_banned)
