"""Measure: the policy's rewards on held-out questions of this node's own, and whether the policy has fallen.

The questions follow from the node's private seed: nobody who sends rollouts can tell which they are. They are held out, so nobody
trains on them, and they differ from the public evaluation's. `go_back` decides what follows from a fall.
"""

import hashlib
from dataclasses import dataclass

from swarmd.experience.seeds import Seeds
from swarmd.loops.canary.memory import CONFIRMING, QUESTIONS_MIN, Bounds, Fall, Verdict, fall
from swarmd.loops.evaluate import Evaluate
from swarmd.loops.record import mean
from swarmd.metrics import Metrics


@dataclass(frozen=True)
class Finding:
    """One measurement: the questions' mean rewards, the verdict, and how far below the best the rewards are."""

    verdict: Verdict
    scores: tuple[float, ...]
    fall: Fall


@dataclass
class Measure:
    """Measures the policy against its best."""

    evaluate: Evaluate
    seeds: Seeds
    bounds: Bounds
    metrics: Metrics

    @property
    def key(self) -> str:
        """Names what is measured: measurements of another key cannot be compared."""
        evaluate, generator = self.evaluate, self.evaluate.generator
        return f"{evaluate.num_questions} {generator.temperature:g} {generator.tokens_max}"

    async def once(self, best: tuple[float, ...], *, round: int) -> Finding:
        """One completion a question. Where that looks like a fall, `CONFIRMING` fresh ones confirm it, refute it, or leave it open.

        The first measurement, without a best, has as many: luck in a single completion would stay the best for ever.

        Raises:
            TooFewQuestions: nothing can ever be measured.
            LocalError: the completions could not be generated or scored.
        """
        if not best:
            scores = await self._scores(CONFIRMING, round, "canary")
            return self._found(Finding("good", scores, Fall(0.0, 0.0)))
        scores = await self._scores(1, round, "canary")
        seen = fall(best, scores)
        if not self.bounds.suspects(seen):
            return self._found(Finding("good", scores, seen))
        scores = await self._scores(CONFIRMING, round, "canary again")
        seen = fall(best, scores)
        verdict: Verdict = "low" if self.bounds.suspects(seen) else "good"
        return self._found(Finding("fallen" if self.bounds.confirms(seen) else verdict, scores, seen))

    async def _scores(self, num_completions: int, round: int, purpose: str) -> tuple[float, ...]:
        seed = self.seeds.seed(purpose, round)
        _, rewards_RG = await self.evaluate.rewards(num_completions, seed=seed, num_least=QUESTIONS_MIN)
        return tuple(mean(rewards_G) for rewards_G in rewards_RG)

    def _found(self, finding: Finding) -> Finding:
        self.metrics.canary_checks.labels(finding.verdict).inc()
        self.metrics.canary_score.set(mean(list(finding.scores)))
        self.metrics.canary_drop.set(finding.fall.drop)
        return finding


def questions_author(seeds: Seeds) -> bytes:
    """Stands for the author of the node's own canary questions: nobody's key, and nobody else can know it."""
    seed = seeds.seed("canary questions", 0)
    return hashlib.sha256(b"swarmd canary questions" + seed.to_bytes(8, "big")).digest()
