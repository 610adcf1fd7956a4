"""The swarm's rollouts, scored here, on disk: bounded, drawn at random, and all still there after a crash.

The file holds no message as it came, only the rollouts that this node made of it: small rows to choose from (`rollouts`) and, apart
from them, the texts and rewards of each (`payloads`).

Past a bound the buffer evicts rollouts in this order:

1. over-age rollouts;
2. used-up rollouts;
3. uninformative rollouts;
4. the oldest informative rollout of the author who holds most, where all authors who are not proven count as one.

An author above its share loses its own rollouts in the same order, and nobody else's.
"""

import json
import math
import random
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from swarmd.experience import schema
from swarmd.experience.draws import Admission, Pool
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.experience.store import Store
from swarmd.protocol.types import Rollout, VerifiedBatch


@dataclass(frozen=True, slots=True)
class AddResult:
    """The fate of one batch; skipped rollouts (no prompt) are in none of the numbers."""

    num_added: int
    num_duplicate: int
    num_evicted: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One draw. The pool holds the rollouts that are neither over-age nor used up.

    Attributes:
        shortfall: how many rollouts fewer than asked for came.
        num_over_age: informative rollouts that only their age keeps from being drawn.
        num_unproven: drawn rollouts of authors that are not proven.
        num_held_back: rollouts that the round is short of because their authors had given what they may.
        num_authors: authors of whom something could be drawn.
        num_authors_out: those of these authors who were not admitted.
        num_damaged: drawn rollouts that the disk gave back otherwise than they were written. They are dropped.
    """

    rollouts: list[ScoredRollout]
    num_informative_pool: int
    num_pool: int
    shortfall: int
    num_over_age: int = 0
    num_unproven: int = 0
    num_held_back: int = 0
    num_authors: int = 0
    num_authors_out: int = 0
    num_damaged: int = 0


@dataclass(frozen=True, slots=True)
class BufferCounts:
    """Rollouts held, used up or not; `by_author` counts those of each author."""

    num_rollouts: int
    num_informative: int
    size_bytes: int
    by_author: dict[bytes, int]


class SwarmBuffer:
    """External rollouts. Plain blocking code, for any thread; the owner closes it.

    Args:
        path: the database file.
        rollouts_max, size_bytes_max: the bounds, by number and by bytes stored.
        author_share_max: share of either bound that one author may hold.
        uses_max: how often one rollout may be drawn.
        age_s_max: rollouts older than this are not drawn. The age runs from creation by the author's clock or from receipt,
            whichever is earlier: an author can make its rollouts look older, never younger.
        digest: the manifest's digest. Counters mean other questions in another swarm, so another digest empties the buffer.

    Raises:
        StateError: newer schema, or not accessible.
        DiskFull: no space for an empty database.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        rollouts_max: int,
        size_bytes_max: int,
        author_share_max: float,
        uses_max: int,
        age_s_max: float,
        digest: bytes = b"",
    ) -> None:
        if min(rollouts_max, size_bytes_max, uses_max) < 1 or not 0 < author_share_max <= 1:
            raise ValueError("bounds must be at least 1, and an author's share within (0, 1]")
        path = Path(path)
        self._total_max = schema.Bounds(rollouts_max, size_bytes_max)
        self._author_max = schema.Bounds(
            max(1, int(rollouts_max * author_share_max)), max(1, int(size_bytes_max * author_share_max))
        )
        self._uses_max, self._age_ms_max = uses_max, int(age_s_max * 1000)
        self._store = Store(
            path,
            schema=schema.create(digest),
            version=schema.VERSION,
            synchronous="NORMAL",
            expendable=True,
        )
        self._store.transaction(lambda db: schema.adopt(db, digest, uses_max))

    @property
    def moved_aside(self) -> tuple[Path, ...]:
        """Files that were replaced by an empty one, the latest last: damaged, or of an older version."""
        return tuple(self._store.moved_aside)

    def add(
        self,
        verified: VerifiedBatch,
        prompts: Sequence[str | None],
        rewards_RG: Sequence[Sequence[float]],
        *,
        received_ms: int,
        proven: bool = True,
    ) -> AddResult:
        """Store a batch with this node's prompts and rewards, then evict down to the bounds.

        Args:
            verified: the batch.
            prompts: the regenerated prompt of each rollout; None skips the rollout (a held-out question).
            rewards_RG: this node's rewards, one for each completion.
            received_ms: Unix time by this node's clock, which is also the time of the eviction.
            proven: whether the author is proven. All authors who are not share one author's place in a full buffer.

        Raises:
            ValueError: lengths that do not match the batch, or a reward that is not finite.
            DiskFull: nothing of the batch was stored, nothing else was lost.
        """
        _check(verified.batch.rollouts, prompts, rewards_RG)
        header = verified.signed.header
        made_ms = min(header.created_ms, received_ms)

        def work(db: sqlite3.Connection) -> AddResult:
            num_added = num_duplicate = 0
            for rollout, prompt, rewards_G in zip(verified.batch.rollouts, prompts, rewards_RG, strict=True):
                if prompt is None:
                    continue
                key = (header.author, rollout.dataset, rollout.counter)
                if schema.is_known(db, key):
                    num_duplicate += 1
                    continue
                payload = _encode(rollout, prompt, rewards_G, header.created_ms, header.policy_version)
                schema.insert_rollout(db, key, made_ms, rewards_G, payload)
                num_added += 1
            if num_added:
                schema.note_proven(db, header.author, proven=proven)
            cutoff_ms = received_ms - self._age_ms_max
            num_evicted = schema.evict(db, header.author, self._author_max, self._total_max, cutoff_ms)
            return AddResult(num_added, num_duplicate, num_evicted)

        return self._store.transaction(work)

    def sample(
        self,
        num: int,
        rng: random.Random,
        *,
        now_ms: int,
        whose: schema.Whose = schema.ANYBODY,
        admission: Admission | None = None,
    ) -> Sample:
        """Draw at most `num` informative rollouts without replacement and count the use; never waits for more.

        The pool holds the rollouts of authors that `whose` names and `admission` does not ban. Without an admission all authors are
        alike.

        Raises:
            DiskFull: the use could not be counted, so nothing was drawn.
        """

        def work(db: sqlite3.Connection) -> Sample:
            cutoff_ms = now_ms - self._age_ms_max
            pool = Pool.find(db, cutoff_ms, whose, admission)
            rows = pool.draw(num, rng, admission)
            drawn = schema.use(db, rows, self._uses_max)
            authors = [author for (author, _, _), _ in drawn]
            schema.note_draw(db, num, authors, now_ms, cutoff_ms)
            return Sample(
                [_decode(*one) for one in drawn],
                num_informative_pool=len(pool.candidates),
                num_pool=len(pool.candidates) + pool.num_uninformative,
                shortfall=num - len(drawn),
                num_over_age=schema.count_over_age(db, cutoff_ms, whose),
                num_unproven=sum(author in pool.unproven for author in authors),
                num_held_back=min(num, len(pool.candidates)) - len(rows),
                num_authors=pool.num_authors,
                num_authors_out=pool.num_authors_out,
                num_damaged=len(rows) - len(drawn),
            )

        return self._store.transaction(work)

    def quarantine(self, authors: Collection[bytes]) -> int:
        """Keep the rollouts held of these authors from ever being drawn; returns how many rollouts that took.

        These rollouts count as used up: they are evicted before others, and do not come back as new ones. Rollouts that the authors
        send later are like anybody's.
        """
        return self._store.transaction(lambda db: schema.quarantine(db, authors))

    def counts(self) -> BufferCounts:
        """The holdings at this moment; the cost grows with the number of authors, not of rollouts."""
        held = self._store.transaction(schema.holdings)
        return BufferCounts(
            num_rollouts=sum(num for _, num, _, _ in held),
            num_informative=sum(num for _, _, num, _ in held),
            size_bytes=sum(size for _, _, _, size in held),
            by_author={author: num for author, num, _, _ in held},
        )

    def close(self) -> None:
        self._store.close()


def _check(
    rollouts: Sequence[Rollout], prompts: Sequence[str | None], rewards_RG: Sequence[Sequence[float]]
) -> None:
    if not len(rollouts) == len(prompts) == len(rewards_RG):
        raise ValueError(
            f"{len(rollouts)} rollouts need as many prompts and rewards, got {len(prompts)} and {len(rewards_RG)}"
        )
    for rollout, prompt, rewards_G in zip(rollouts, prompts, rewards_RG, strict=True):
        if prompt is None:
            continue
        if len(rewards_G) != len(rollout.completions):
            raise ValueError(
                f"{len(rollout.completions)} completions need as many rewards, got {len(rewards_G)}"
            )
        if not all(math.isfinite(reward) for reward in rewards_G):
            raise ValueError(f"rewards must be finite, got {list(rewards_G)}")


def _encode(
    rollout: Rollout, prompt: str, rewards_G: Sequence[float], created_ms: int, policy_version: int
) -> bytes:
    completions = [
        [completion.text, completion.finished, reward, completion.logprob_sum, completion.num_tokens]
        for completion, reward in zip(rollout.completions, rewards_G, strict=True)
    ]
    return json.dumps([prompt, created_ms, policy_version, completions], ensure_ascii=False).encode()


def _decode(key: schema.Key, payload: bytes) -> ScoredRollout:
    author, dataset, counter = key
    prompt, created_ms, policy_version, completions = json.loads(payload)
    return ScoredRollout(
        author=author,
        dataset=dataset,
        counter=counter,
        prompt=prompt,
        completions=tuple(
            ScoredCompletion(text, finished, reward, None, logprob_sum, num_tokens)
            for text, finished, reward, logprob_sum, num_tokens in completions
        ),
        created_ms=created_ms,
        policy_version=policy_version,
        external=True,
    )
