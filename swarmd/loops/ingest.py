"""Ingest: what the network accepted is checked once more, regenerated, scored in the sandbox, and stored.

The network process faces strangers, so the daemon does not take its word: the rules run again on the bytes that are stored. A
question is rebuilt from its address; nothing a peer wrote decides what was asked or what it is worth.

A batch of a banned author, or over a quota, is dropped unscored; what the others tell of their author is kept in `trust`.
"""

import logging
import time
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from typing import Any

from swarmd.errors import DiskFull, LocalError
from swarmd.experience.advantages import is_informative
from swarmd.experience.buffer import AddResult
from swarmd.experience.sampling import Source
from swarmd.loops.pieces import score_in_pieces
from swarmd.loops.ports import Caller, NowMs, RunBlocking
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import peer_id_of
from swarmd.protocol.types import VerifiedBatch
from swarmd.trust.evidence import found_by_scorer, num_clean
from swarmd.trust.quotas import tokens_of
from swarmd.trust.trust import Trust

log = logging.getLogger(__name__)


@dataclass
class Ingest:
    """The ingest loop. `add` stores a verified batch with its prompts and rewards; `source` says whose batches are let in."""

    inbox: AsyncIterable[bytes]
    scorer: Caller
    manifest: Manifest
    author: bytes
    seen: Seen
    add: Callable[[VerifiedBatch, list[str], list[list[float]]], AddResult]
    run_blocking: RunBlocking
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
    deadline_s: float
    trust: Trust
    source: Source = "swarm"

    async def run(self) -> None:
        """Ingest every message that comes."""
        async for data in self.inbox:
            await self.once(data)

    async def once(self, data: bytes) -> None:
        """Check, score and store one message; what cannot be stored is counted by reason."""
        outcome = validate(data, now_ms=self.now_ms(), seen=self.seen, manifest=self.manifest)
        if outcome.verdict is not Verdict.ACCEPT or outcome.batch is None:
            self._discard("invalid", 1)
            return
        verified = outcome.batch
        num_rollouts = len(verified.batch.rollouts)
        if (verified.signed.header.author == self.author) != (self.source == "own"):
            return
        if refusal := self._refusal(verified):
            self.metrics.trust_dropped.labels(refusal).inc()
            dropped = self.progress.trust.setdefault("dropped", {})
            dropped[refusal] = dropped.get(refusal, 0) + 1
            self._discard("banned" if refusal == "banned" else "over_quota", num_rollouts)
            return
        try:
            scores = await self._score(verified)
            if any(scores["held_out"]):  # no honest node generates on these
                self._discard("held_out", num_rollouts)
                return
            added = await self.run_blocking(self.add, verified, scores["prompts"], scores["rewards"])
        except DiskFull as error:
            self._discard("disk_full", num_rollouts)
            log.warning("an external batch could not be stored: %s", error)
        except LocalError as error:
            self._discard("scorer_failed", num_rollouts)
            log.warning("an external batch could not be scored: %s", error)
        except (
            ValueError
        ) as error:  # the scorer broke its promise: a reward that is not finite, or too few of them
            self._discard("invalid", num_rollouts)
            log.error("the scorer's answer cannot be stored: %s", error)
        else:
            self._discard("duplicate", added.num_duplicate)
            self.metrics.buffer_evicted.inc(added.num_evicted)
            self.metrics.buffer_added.inc(added.num_added)
            self.progress.num_received += added.num_added
            for rewards_G in scores["rewards"]:
                self.progress.capability.observe(verified.signed.header.author, rewards_G)
            self._remember(verified, scores, added)

    def _refusal(self, verified: VerifiedBatch) -> str | None:
        """Why a batch is not scored: one of `metrics.TRUST_DROPS`, or None."""
        author, now_s = verified.signed.header.author, self.now_ms() / 1000
        if author == self.author:
            return None
        if self.trust.standings.banned(author, now_s):
            return "banned"
        size_bytes, num_tokens = len(verified.signed.data), tokens_of(verified.batch)
        return self.trust.quotas.take(author, size_bytes=size_bytes, num_tokens=num_tokens, now=now_s)

    def _remember(self, verified: VerifiedBatch, scores: dict[str, Any], added: AddResult) -> None:
        """What a batch that was scored and stored tells of its author."""
        author = verified.signed.header.author
        if author == self.author:
            return
        num_copied = sum(
            self.trust.copies.count(author, rollout.dataset, [c.text for c in rollout.completions])
            for rollout in verified.batch.rollouts
        )
        num_new = min(num_clean(len(verified.batch.rollouts), scores["reasons"]), added.num_added)
        num_informative = sum(is_informative(rewards_G) for rewards_G in scores["rewards"])
        self.trust.standings.scored(
            author,
            num_rollouts=num_new,
            num_informative=min(num_informative, num_new),
            num_duplicate=added.num_duplicate,
            num_copied=num_copied,
        )
        self.metrics.trust_duplicates.inc(added.num_duplicate)
        self.metrics.trust_copied.inc(num_copied)

    async def _score(self, verified: VerifiedBatch) -> dict[str, Any]:
        author = verified.signed.header.author
        items = [
            [
                rollout.dataset,
                self.manifest.question_seed(author, rollout.dataset, rollout.counter),
                [completion.text for completion in rollout.completions],
            ]
            for rollout in verified.batch.rollouts
        ]
        started = time.perf_counter()
        scores = await score_in_pieces(self.scorer, items, self.deadline_s)
        self.metrics.score_seconds.observe(time.perf_counter() - started)
        for reason, num in scores["reasons"].items():
            self.metrics.score_failures.labels(reason).inc(num)
        if author != self.author:
            self._account(author, scores)
        return scores

    def _account(self, author: bytes, scores: dict[str, Any]) -> None:
        """Charge what the scoring took, and count what the scorer saw the author's text try."""
        now_s = self.now_ms() / 1000
        self.trust.quotas.charge_cpu(author, scores["cpu_s"], now_s)
        for evidence in found_by_scorer(scores["reasons"]):
            self.metrics.trust_evidence.labels(evidence).inc()
            if self.trust.standings.accuse(author, evidence, now_s) is not None:
                self.metrics.trust_bans.labels("points").inc()
                log.warning("%s is banned for now: %s", peer_id_of(author), evidence)

    def _discard(self, reason: str, num: int) -> None:
        if num:
            self.metrics.buffer_discarded.labels(reason).inc(num)
