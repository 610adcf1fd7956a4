"""Ingest: what the network accepted is checked once more, regenerated, scored in the sandbox, and stored.

The network process faces strangers, so the daemon does not take its word: the rules run again on the same bytes. A
question is rebuilt from its address; nothing a peer wrote decides what was asked or what it is worth.

A batch of a banned author, or over a quota, is dropped unscored; what the others tell of their author is kept in `trust`.
"""

import logging
import math
import time
from collections.abc import AsyncIterable, Callable, Iterator, Sequence
from dataclasses import dataclass

import trio

from swarmd.clients.scorer import COMPLETIONS_MAX, ScoreItem, Scorer, Scores
from swarmd.errors import DiskFull, LocalError
from swarmd.experience.advantages import is_informative, level
from swarmd.experience.buffer import AddResult
from swarmd.experience.sampling import Source
from swarmd.loops.ports import NowMs, RunBlocking
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import peer_id_of
from swarmd.protocol.types import Rollout, VerifiedBatch
from swarmd.trust.evidence import found_by_scorer, has_finding
from swarmd.trust.proof import Text
from swarmd.trust.quotas import tokens_of
from swarmd.trust.trust import Trust

log = logging.getLogger(__name__)
# Of one author in one turn: what a fast node sends in sixteen rounds, which is as much as the scorer takes in one piece.
MESSAGES_MAX = 16


@dataclass
class Ingest:
    """The ingest loop. `add` stores a verified batch with its prompts and rewards; `source` says whose batches are let in.

    Its many fields are the gates of a message: each stands alone, and a test changes one of them.
    `more` gives another message of the author whose message `inbox` gave last, if one waits.
    """

    inbox: AsyncIterable[bytes]
    scorer: Scorer
    manifest: Manifest
    author: bytes
    seen: Seen
    add: Callable[[VerifiedBatch, list[str], list[list[float]]], AddResult]
    run_blocking: RunBlocking
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
    trust: Trust
    source: Source = "swarm"
    reward_spread_min: float = 0.0
    more: Callable[[], bytes | None] = lambda: None

    async def run(self) -> None:
        """Ingest every message that comes; of one author as many at a time as the scorer takes in one piece.

        A call to the scorer costs 9 ms, and on a busy machine a quarter of a second of waiting, for one batch or for ten.
        """
        async for message in self.inbox:
            batches = self._admitted(message)
            for _ in range(MESSAGES_MAX - 1):
                if _num_completions(batches) >= COMPLETIONS_MAX or (another := self.more()) is None:
                    break
                await trio.lowlevel.checkpoint()  # a dear one takes 13 ms to check
                batches += self._admitted(another)
            await self._take_in(batches)

    async def once(self, message: bytes) -> None:
        await self._take_in(self._admitted(message))

    def _admitted(self, message: bytes) -> list[VerifiedBatch]:
        """The batch of a message, if it is to be scored; what is not is counted by reason."""
        outcome = validate(message, now_ms=self.now_ms(), seen=self.seen, manifest=self.manifest)
        if outcome.verdict is not Verdict.ACCEPT or outcome.batch is None:
            self._discard("invalid", 1)
            return []
        verified = outcome.batch
        if (verified.signed.header.author == self.author) != (self.source == "own"):
            return []
        if refusal := self._refusal(verified):
            self.metrics.trust_dropped.labels(refusal).inc()
            self.progress.shown.dropped[refusal] += 1
            reason = "banned" if refusal == "banned" else "over_quota"
            self._discard(reason, len(verified.batch.rollouts))
            return []
        return [verified]

    async def _take_in(self, batches: Sequence[VerifiedBatch]) -> None:
        """Score and store batches of one author; what cannot be stored is counted by reason."""
        if not batches:
            return
        num_rollouts = len(_rollouts(batches))
        began_s = trio.current_time()
        try:
            scores = await self._score(batches)
        except (LocalError, ValueError) as error:
            # The cost is not known, and these texts may have ended the scorer: their author pays for a deadline at most.
            took_s = trio.current_time() - began_s
            self._charge(batches[0].signed.header.author, min(took_s, self.scorer.deadline_s))
            self._discard("scorer_failed", num_rollouts)
            log.warning("external batches could not be scored: %s", error)
            return
        if scores.reasons["deadline"]:  # what was not scored is not wrong either
            self._discard("deadline", num_rollouts)
            return
        if any(scores.held_out):  # no honest node generates on these
            self._discard("held_out", num_rollouts)
            return
        self._remember(batches, scores, await self.run_blocking(self._store, batches, scores))

    def _store(self, batches: Sequence[VerifiedBatch], scores: Scores) -> list[AddResult | Exception]:
        """Blocking. What became of each batch."""
        results: list[AddResult | Exception] = []
        for verified, prompts, rewards_RG, _ in _by_batch(batches, scores):
            try:
                results.append(self.add(verified, prompts, rewards_RG))
            except (LocalError, ValueError) as error:
                results.append(error)
        return results

    def _refusal(self, verified: VerifiedBatch) -> str | None:
        """Why a batch is not scored: one of `metrics.labels.TRUST_DROPS`, or None."""
        author, now_s = verified.signed.header.author, self.now_ms() / 1000
        if author == self.author:
            return None
        if self.trust.standings.banned(author, now_s):
            return "banned"
        size_bytes, num_tokens = len(verified.signed.data), tokens_of(verified.batch)
        return self.trust.quotas.take(author, size_bytes=size_bytes, num_tokens=num_tokens, now=now_s)

    def _remember(
        self,
        batches: Sequence[VerifiedBatch],
        scores: Scores,
        results: Sequence[AddResult | Exception],
    ) -> None:
        """Count what was stored, and keep what it tells of its author."""
        rollouts: list[Rollout] = []
        rewards_RG: list[list[float]] = []
        added: list[AddResult] = []
        proofs: list[list[float]] = []
        for (verified, _, batch_rewards_RG, reasons_RG), result in zip(
            _by_batch(batches, scores), results, strict=True
        ):
            if isinstance(result, AddResult):
                added.append(result)
                found = self._proofs(verified.batch.rollouts, batch_rewards_RG, reasons_RG)
                # Which of the rollouts came before is not told: those that prove least may be the new ones.
                proofs.append(sorted(found)[: result.num_added])
                rollouts += verified.batch.rollouts
                rewards_RG += batch_rewards_RG
            else:
                self._failed(result, len(verified.batch.rollouts))
        if not added:
            return
        num_added = sum(result.num_added for result in added)
        num_duplicate = sum(result.num_duplicate for result in added)
        self._discard("duplicate", num_duplicate)
        self.metrics.buffer_evicted.inc(sum(result.num_evicted for result in added))
        self.metrics.buffer_added.inc(num_added)
        self.progress.history.num_received += num_added
        author = batches[0].signed.header.author
        if author == self.author:
            return
        num_copied = sum(
            self.trust.copies.count(author, rollout.dataset, [c.text for c in rollout.completions])
            for rollout in rollouts
        )
        num_new = sum(len(one) for one in proofs)
        self.trust.standings.scored(
            author,
            num_rollouts=num_new,
            proof=math.fsum(proof for one in proofs for proof in one),
            num_informative=min(sum(map(is_informative, rewards_RG)), num_new),
            num_duplicate=num_duplicate,
            num_copied=num_copied,
        )
        self.metrics.trust_duplicates.inc(num_duplicate)
        self.metrics.trust_copied.inc(num_copied)

    def _proofs(
        self,
        rollouts: Sequence[Rollout],
        rewards_RG: Sequence[Sequence[float]],
        reasons_RG: Sequence[Sequence[str]],
    ) -> list[float]:
        """The proof of each rollout without a finding; nothing where a text attacked the scorer."""
        reasons = {reason for reasons_G in reasons_RG for reason in reasons_G}
        if found_by_scorer(dict.fromkeys(reasons, 1)):
            return []
        return [
            self.trust.own_work.worth(
                Text.of([completion.text for completion in rollout.completions], reasons_G),
                informative=is_informative(level(rewards_G, self.reward_spread_min)),
            )
            for rollout, rewards_G, reasons_G in zip(rollouts, rewards_RG, reasons_RG, strict=True)
            if not has_finding(reasons_G)
        ]

    def _failed(self, error: Exception, num_rollouts: int) -> None:
        """A scored batch could not be stored."""
        if isinstance(error, LocalError):
            self._discard("disk_full" if isinstance(error, DiskFull) else "scorer_failed", num_rollouts)
            log.warning("an external batch could not be stored: %s", error)
        else:  # the scorer broke its promise: a reward that is not finite, or too few of them
            self._discard("invalid", num_rollouts)
            log.error("the scorer's answer cannot be stored: %s", error)

    async def _score(self, batches: Sequence[VerifiedBatch]) -> Scores:
        author = batches[0].signed.header.author
        items = [
            ScoreItem(
                rollout.dataset,
                self.manifest.question_seed(author, rollout.dataset, rollout.counter),
                [completion.text for completion in rollout.completions],
            )
            for rollout in _rollouts(batches)
        ]
        started = time.perf_counter()
        scores = await self.scorer.score_external(items)
        self.metrics.score_seconds.observe(time.perf_counter() - started)
        for reason, num in scores.reasons.items():
            self.metrics.score_failures.labels(reason).inc(num)
        if author != self.author:
            self._account(author, scores)
        return scores

    def _account(self, author: bytes, scores: Scores) -> None:
        """Charge what the scoring took, and count what the scorer saw the author's text try."""
        now_s = self.now_ms() / 1000
        self._charge(author, scores.cpu_s + scores.held_s)
        for evidence in found_by_scorer(scores.reasons):
            self.metrics.trust_evidence.labels(evidence).inc()
            if self.trust.standings.accuse(author, evidence, now_s) is not None:
                self.metrics.trust_bans.labels("points").inc()
                log.warning("%s is banned for now: %s", peer_id_of(author), evidence)

    def _charge(self, author: bytes, seconds: float) -> None:
        if author != self.author:
            self.trust.quotas.charge_scoring(author, seconds, self.now_ms() / 1000)

    def _discard(self, reason: str, num: int) -> None:
        if num:
            self.metrics.buffer_discarded.labels(reason).inc(num)


def _rollouts(batches: Sequence[VerifiedBatch]) -> list[Rollout]:
    return [rollout for verified in batches for rollout in verified.batch.rollouts]


def _num_completions(batches: Sequence[VerifiedBatch]) -> int:
    return sum(len(rollout.completions) for rollout in _rollouts(batches))


def _by_batch(
    batches: Sequence[VerifiedBatch], scores: Scores
) -> Iterator[tuple[VerifiedBatch, list[str], list[list[float]], list[list[str]]]]:
    """Each batch with its prompts, its rewards and the reasons for them."""
    first = 0
    for verified in batches:
        end = first + len(verified.batch.rollouts)
        yield (
            verified,
            scores.prompts[first:end],
            scores.rewards_RG[first:end],
            scores.reasons_RG[first:end],
        )
        first = end
