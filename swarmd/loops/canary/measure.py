"""Canary: measures the policy on held-out questions of this node's own now and then, and says whether it has fallen.

The questions follow from the node's private seed: nobody who sends rollouts can tell which they are. They are held out, so nobody
trains on them, and others than the public evaluation's. What is done about a fall is `rollback`'s.
"""

import hashlib
from dataclasses import dataclass

from swarmd.experience.streams import Streams
from swarmd.loops.canary.memory import CONFIRMING, Bounds, Fall, Memory, Verdict, fall
from swarmd.loops.evaluate import Evaluate
from swarmd.loops.progress import Progress, mean
from swarmd.metrics import Metrics


@dataclass(frozen=True)
class Finding:
    """One measurement: the questions' mean rewards, what came out, and how far below the best they are."""

    verdict: Verdict
    scores: tuple[float, ...]
    fall: Fall


@dataclass
class Canary:
    """Measures when it is due. What it remembers is in `progress.canary`, and so in the checkpoints."""

    evaluate: Evaluate
    streams: Streams
    bounds: Bounds
    every_rounds: int
    progress: Progress
    metrics: Metrics

    @property
    def key(self) -> str:
        """What is measured: measurements of another key cannot be compared."""
        evaluate = self.evaluate
        return f"{evaluate.num_questions} {evaluate.temperature:g} {evaluate.tokens_max}"

    def resume(self) -> None:
        """Take up the memory of the checkpoint that the node went on from, unless it is of other measurements."""
        self.progress.canary = Memory.from_state(self.progress.canary_state, self.key)

    @property
    def is_due(self) -> bool:
        """Whether it was measured long enough ago; after a kill between a measurement and its consequence, at once."""
        return self.rounds_left <= 0

    @property
    def rounds_left(self) -> int:
        """Rounds until the next measurement."""
        memory = self.progress.canary
        return memory.measured_round + memory.backoff.rounds(self.every_rounds) - self.progress.round

    async def measure(self) -> Finding:
        """One completion a question; where that looks like a fall, `CONFIRMING` fresh ones confirm it, refute it, or leave it open.

        The first measurement has as many: luck in a single one would stay the best for ever.

        Raises:
            LocalError: it could not be generated or scored.
        """
        memory, round = self.progress.canary, self.progress.round
        if not memory.best:
            scores = await self._scores(CONFIRMING, round, "canary")
            return self._found(Finding("good", scores, Fall(0.0, 0.0)))
        scores = await self._scores(1, round, "canary")
        seen = fall(memory.best, scores)
        if not self.bounds.suspects(seen):
            return self._found(Finding("good", scores, seen))
        scores = await self._scores(CONFIRMING, round, "canary again")
        seen = fall(memory.best, scores)
        verdict: Verdict = "low" if self.bounds.suspects(seen) else "good"
        return self._found(Finding("fallen" if self.bounds.confirms(seen) else verdict, scores, seen))

    async def _scores(self, num_completions: int, round: int, purpose: str) -> tuple[float, ...]:
        seed = self.streams.seed(purpose, round)
        _, rewards_RG = await self.evaluate.rewards(num_completions, seed=seed)
        return tuple(mean(rewards_G) for rewards_G in rewards_RG)

    def _found(self, finding: Finding) -> Finding:
        self.metrics.canary_checks.labels(finding.verdict).inc()
        self.metrics.canary_score.set(mean(list(finding.scores)))
        self.metrics.canary_drop.set(finding.fall.drop)
        return finding


def questions_author(streams: Streams) -> bytes:
    """Stands for the author of the node's own canary questions: nobody's key, and nobody else can know it."""
    seed = streams.seed("canary questions", 0)
    return hashlib.sha256(b"swarmd canary questions" + seed.to_bytes(8, "big")).digest()
