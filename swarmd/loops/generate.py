"""Generate: draw questions of our own, let the policy answer, hand the rollouts to sharing and to the update.

Rollouts are shared before they are scored: a reward is nobody's business but the scorer's owner. With `generations_max` above 1
this is dynamic sampling (DAPO, arXiv 2503.14476, section 3.2) with a bound: a policy that answers everything right, or nothing,
must not generate for ever.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from swarmd.clients.generator import Generator
from swarmd.clients.policy import Generated
from swarmd.clients.scorer import Scorer
from swarmd.errors import LocalError, cause
from swarmd.experience.advantages import level
from swarmd.experience.own import OwnExperience
from swarmd.experience.rollouts import ScoredRollout
from swarmd.experience.seeds import Seeds
from swarmd.fair.bucket import Bucket
from swarmd.loops.answers import Answers, OwnRollouts
from swarmd.loops.ask import Ask
from swarmd.loops.ports import NowMs
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
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


@dataclass
class Made:
    """A round's own rollouts so far, what the engine took for them, and the answers that are not scored yet."""

    rollouts: list[ScoredRollout] = field(default_factory=list)
    num_tokens: int = 0
    seconds: float = 0.0
    unscored: Answers | None = None


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
    _retry_s: float = RETRY_FIRST_S
    # Rounds begun, those whose first questions are drawn, and the last one that was lost.
    _num_begun: int = 0
    _num_asked: int = 0
    _last_lost: int = 0

    async def run(self) -> None:
        """Generate for ever, never further ahead than the staleness bound allows.

        Where the bound leaves room, the next generation begins while the scorer works on the last one's answers. One round is
        scored at a time, so rounds stay in order.
        """
        try:
            await self._run()
        except BaseExceptionGroup as group:
            raise cause(group) from None

    async def once(self) -> None:
        """One round's own experience, from its questions to its scores."""
        await self._finish(await self._made())

    async def _run(self) -> None:
        scored = trio.Event()
        scored.set()
        async with trio.open_nursery() as nursery:
            while True:
                await self.progress.room_to_generate()
                self._num_begun += 1
                try:
                    made = await self._made()
                except LocalError as error:
                    await self._lost(self._num_begun, error)
                    continue
                await scored.wait()
                scored = trio.Event()
                self.progress.expect_own()
                nursery.start_soon(self._finish_beside, self._num_begun, made, scored)

    async def _finish_beside(self, number: int, made: Made, scored: trio.Event) -> None:
        """Score a round while the next one may be generated; a failure holds up the scores of the next one."""
        # The scorer does one thing after the other, and generation waits for its next questions.
        await self.progress.until(lambda: self._num_asked > number or not self.progress.pool.has_room)
        try:
            await self._finish(made)
        except LocalError as error:
            await self._lost(number, error)
        else:
            if number > self._last_lost:
                self.progress.shown.generate_error, self._retry_s = None, RETRY_FIRST_S
        self.progress.settle_own()
        scored.set()

    async def _lost(self, number: int, error: LocalError) -> None:
        log.warning("a generation is lost: %s", error)
        self.progress.shown.generate_error = error
        self._last_lost = max(self._last_lost, number)
        wait_s, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_MAX_S)
        await trio.sleep(wait_s)

    async def _made(self) -> Made:
        """A round's generations; the last one that the bound allows is not scored yet.

        While too few rollouts are informative, and the bound allows, generate again.
        """
        made = Made()
        for num_left in reversed(range(self.generations_max)):
            try:
                made.unscored = await self._generation()
                if num_left:
                    await self._score(made)
            except LocalError as error:
                _go_on(made, error)
                break
            if num_left and sum(rollout.informative for rollout in made.rollouts) >= self.num_rollouts:
                break
        return made

    async def _finish(self, made: Made) -> None:
        """Score what is not scored yet, and hand the round to the update."""
        try:
            await self._score(made)
        except LocalError as error:
            _go_on(made, error)
        self.progress.put_own(
            OwnExperience.of(
                made.rollouts, num_kept=self.num_rollouts, num_tokens=made.num_tokens, seconds=made.seconds
            )
        )

    async def _generation(self) -> Answers:
        """I questions and their completions, shared."""
        try:
            questions = await self.ask.questions(self.num_rollouts)
        finally:
            self._num_asked = self._num_begun
            self.progress.notify()
        result = await self.generator.generate(
            [q.prompt for q in questions],
            self.num_completions,
            seed=self.seeds.seed("generate", questions[0].counter),
        )
        self._count(result)
        answers = Answers(questions, result, self.now_ms())
        if self.outbox is not None:
            await self._share(self.outbox, self._to_share(answers))
        return answers

    async def _score(self, made: Made) -> None:
        answers, made.unscored = made.unscored, None
        if answers is None:
            return
        scores = await self.scorer.score(answers.to_score)
        rollouts = answers.scored(
            scores.rewards_RG, self.author, lambda rewards_G: level(rewards_G, self.reward_spread_min)
        )
        for rollout, texts, reasons in zip(rollouts, answers.made.texts_RG, scores.reasons_RG, strict=True):
            self.trust.own_work.observe(Text.of(texts, reasons), informative=rollout.informative)
        made.rollouts += rollouts
        made.num_tokens += answers.made.num_completion_tokens
        made.seconds += answers.made.seconds

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

    def _to_share(self, answers: Answers) -> OwnRollouts:
        own = answers.to_share()
        if num_too_large := len(answers.questions) - len(own.rollouts):
            self.metrics.buffer_discarded.labels("too_large").inc(num_too_large)
            log.warning("%d own rollouts are too large to share", num_too_large)
        return own

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


def _go_on(made: Made, error: LocalError) -> None:
    """Go on with what there is; raise the error again where there is nothing."""
    if not made.rollouts:
        raise error
    log.warning("a round goes on with %d own rollouts: %s", len(made.rollouts), error)
