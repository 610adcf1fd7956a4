"""Generate: draw questions of our own, let the policy answer, hand the rollouts to sharing and to the update.

Rollouts are shared before they are scored: a reward is nobody's business but the scorer's owner. With `generations_max` above 1
this is dynamic sampling (DAPO, arXiv 2503.14476, section 3.2) with a bound: a policy that answers everything right, or nothing,
must not generate for ever.
"""

import logging
import math
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from swarmd.clients.generator import Generator
from swarmd.clients.policy import Generated, OwnCompletion
from swarmd.clients.scorer import ScoreItem, Scorer
from swarmd.errors import LocalError
from swarmd.experience.advantages import level
from swarmd.experience.own import OwnExperience
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.experience.seeds import Seeds
from swarmd.fair.bucket import Bucket
from swarmd.loops.ask import Ask, Question
from swarmd.loops.ports import NowMs
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.protocol.types import COMPLETION_BYTES_MAX, Completion, Rollout
from swarmd.trust.proof import Text
from swarmd.trust.trust import Trust

log = logging.getLogger(__name__)
# The wait after a lost generation; each further failure doubles it. A child that died needs a second to be back. At half a minute
# a failure that lasts writes two lines a minute into the log.
RETRY_FIRST_S, RETRY_MAX_S = 1.0, 30.0

# How long a full outbox may hold generation up, out of a purse that fills by a tenth of the time. A network that is being
# restarted is back sooner. A network that cannot come back (its port was taken meanwhile), or that strangers keep busy, must cost
# the sharing of rollouts and not the training on them.
OUTBOX_PATIENCE_S, OUTBOX_PATIENCE_RATE = 10.0, 0.1


@dataclass(frozen=True)
class OwnRollouts:
    """The rollouts of one generation, on their way to the swarm."""

    rollouts: tuple[Rollout, ...]
    created_ms: int
    policy_version: int


@dataclass
class Generate:
    """The generation loop. `num_rollouts` is I, `num_completions` L (or G), `generations_max` the most generations for one round.

    Its many fields are the parts and settings that a round of own rollouts takes, one after the other.
    Rewards of a rollout that lie less than `reward_spread_min` apart teach nothing (`experience.advantages.level`).
    """

    generator: Generator
    ask: Ask
    scorer: Scorer
    author: bytes
    seeds: Seeds
    progress: Progress
    trust: Trust
    metrics: Metrics
    outbox: trio.MemorySendChannel[OwnRollouts] | None
    now_ms: NowMs
    num_rollouts: int
    num_completions: int
    generations_max: int = 1
    reward_spread_min: float = 0.0
    _purse: Bucket = field(default_factory=lambda: Bucket.full(OUTBOX_PATIENCE_RATE, OUTBOX_PATIENCE_S, 0.0))

    async def run(self) -> None:
        """Generate for ever, never further ahead than the staleness bound allows."""
        retry_s = RETRY_FIRST_S
        while True:
            await self.progress.room_to_generate()
            try:
                await self.once()
            except LocalError as error:
                log.warning("a generation is lost: %s", error)
                self.progress.shown.generate_error = error
                await trio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_MAX_S)
            else:
                self.progress.shown.generate_error, retry_s = None, RETRY_FIRST_S

    async def once(self) -> None:
        """One round's own experience. While too few rollouts are informative, and the bound allows, generate again."""
        generated: list[ScoredRollout] = []
        num_tokens, seconds = 0, 0.0
        for _ in range(self.generations_max):
            try:
                result, rollouts = await self._generation()
            except LocalError as error:
                if not generated:
                    raise
                log.warning("a round goes on with %d own rollouts: %s", len(generated), error)
                break
            generated += rollouts
            num_tokens += result.num_completion_tokens
            seconds += result.seconds
            if sum(rollout.informative for rollout in generated) >= self.num_rollouts:
                break
        self.progress.put_own(
            OwnExperience.of(generated, num_kept=self.num_rollouts, num_tokens=num_tokens, seconds=seconds)
        )

    async def _generation(self) -> tuple[Generated, list[ScoredRollout]]:
        """I questions, their completions, sharing, scores: what the engine answered, and the rollouts made of it."""
        questions = await self.ask.questions(self.num_rollouts)
        result = await self.generator.generate(
            [q.prompt for q in questions],
            self.num_completions,
            seed=self.seeds.seed("generate", questions[0].counter),
        )
        self._count(result)
        created_ms = self.now_ms()
        if self.outbox is not None:
            await self._share(self.outbox, self._to_share(questions, result, created_ms))
        texts_RG = result.texts_RG
        scores = await self.scorer.score(
            [ScoreItem(q.dataset, q.seed, texts) for q, texts in zip(questions, texts_RG, strict=True)]
        )
        rollouts = [
            self._scored(
                question,
                completions,
                level(rewards, self.reward_spread_min),
                created_ms,
                result.policy_version,
            )
            for question, completions, rewards in zip(
                questions, result.completions_RG, scores.rewards_RG, strict=True
            )
        ]
        for rollout, texts, reasons in zip(rollouts, texts_RG, scores.reasons_RG, strict=True):
            self.trust.own_work.observe(Text.of(texts, reasons), informative=rollout.informative)
        return result, rollouts

    async def _share(self, outbox: trio.MemorySendChannel[OwnRollouts], own: OwnRollouts) -> None:
        """Hand rollouts to sharing; a full outbox holds generation up for a while, a network that stays away does not end it."""
        with suppress(trio.WouldBlock):
            outbox.send_nowait(own)
            return
        purse, began = self._purse, trio.current_time()
        purse.holds(0.0, began)
        with trio.move_on_after(max(0.0, purse.level)) as patience:
            await outbox.send(own)
        purse.charge(trio.current_time() - began, trio.current_time())
        if patience.cancelled_caught:
            self.metrics.published.labels("failed").inc()
            log.warning("own rollouts were not shared: the network is away, or too busy to take it")

    def _to_share(self, questions: list[Question], result: Generated, created_ms: int) -> OwnRollouts:
        rollouts = [
            Rollout(
                dataset=question.dataset,
                counter=question.counter,
                completions=tuple(map(_completion, completions)),
            )
            for question, completions in zip(questions, result.completions_RG, strict=True)
            if all(len(c.text) <= COMPLETION_BYTES_MAX for c in completions)
        ]
        if num_too_large := len(questions) - len(rollouts):
            self.metrics.buffer_discarded.labels("too_large").inc(num_too_large)
            log.warning("%d own rollouts are too large to share", num_too_large)
        return OwnRollouts(tuple(rollouts), created_ms, result.policy_version)

    def _scored(
        self,
        question: Question,
        completions: list[OwnCompletion],
        rewards: list[float],
        created_ms: int,
        policy_version: int,
    ) -> ScoredRollout:
        return ScoredRollout(
            author=self.author,
            dataset=question.dataset,
            counter=question.counter,
            prompt=question.prompt,
            completions=tuple(
                ScoredCompletion(
                    text=c.text,
                    finished=c.finished,
                    reward=reward,
                    token_ids=c.token_ids,
                    logprob_sum=c.logprob_sum,
                    num_tokens=c.num_tokens,
                    token_logps=c.token_logps,
                )
                for c, reward in zip(completions, rewards, strict=True)
            ),
            created_ms=created_ms,
            policy_version=policy_version,
            external=False,
        )

    def _count(self, result: Generated) -> None:
        metrics = self.metrics
        metrics.generate_seconds.observe(result.seconds)
        if result.seconds_weight_sync:
            metrics.weight_sync_seconds.observe(result.seconds_weight_sync)
        metrics.generate_tokens.labels("prompt").inc(result.num_prompt_tokens)
        metrics.generate_tokens.labels("completion").inc(result.num_completion_tokens)
        for completions in result.completions_RG:
            num_stopped = sum(c.finished for c in completions)
            metrics.completions.labels("stop").inc(num_stopped)
            metrics.completions.labels("length").inc(len(completions) - num_stopped)


def _completion(made: OwnCompletion) -> Completion:
    """The shared part of a completion. A sum that is no number, of a policy that fell apart, is not claimed."""
    logprob_sum = made.logprob_sum
    claimed = logprob_sum if logprob_sum is not None and math.isfinite(logprob_sum) else None
    return Completion(text=made.text, finished=made.finished, logprob_sum=claimed, num_tokens=made.num_tokens)
