"""Update: I own rollouts, J of the swarm's, one step of the policy. A round is one pass of this loop."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from swarmd.errors import LocalError, OutOfMemory
from swarmd.experience.own import OwnExperience
from swarmd.loops.canary.watch import Watch
from swarmd.loops.evaluate import Evaluations
from swarmd.loops.externals import Externals
from swarmd.loops.ports import NowMs
from swarmd.loops.progress import Progress, enter
from swarmd.loops.record import Round, count_round, drawn
from swarmd.loops.training import Training
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import Verdict

log = logging.getLogger(__name__)
RETRY_S = 1.0

NoteUse = Callable[[Sequence[bytes], Sequence[bytes]], None]


@dataclass
class Update:
    """The update loop. `on_round` gets each round; `note_use` is told the authors of a round's external rollouts, and of
    those that the update left out.
    """

    training: Training
    externals: Externals
    canary: Watch
    evaluations: Evaluations
    manifest: Manifest
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
    on_round: Callable[[Round], None]
    note_use: NoteUse

    async def run(self) -> None:
        """Rounds until the node is asked to stop, or `rounds_max` are done."""
        await self.begin()
        while self.training.rounds_max is None or self.progress.round < self.training.rounds_max:
            enter("wait", self.progress, self.metrics)
            own = await self.progress.take_own()
            if own is None:
                break
            if await self.canary.took_back(own.rollouts[0].policy_version, self.training):
                log.info("own rollouts of a policy that was taken back are not trained on")
                self.progress.finish_update()
                continue
            await self.one(own)
        else:
            self.progress.evaluate_at_stop = True
        await self.end()

    async def begin(self) -> None:
        """Before the first round of a policy: how good it is untrained. After a restart: what the canary was about to do."""
        await self.canary.after_round(self.training)
        await self.evaluations.begin()

    async def one(self, own: OwnExperience) -> None:
        """One round on own rollouts just taken; what fails is said and skipped. Then an evaluation, if one is due."""
        try:
            await self.once(own)
        except LocalError as error:
            log.error("round %d failed and was skipped: %s", self.progress.round + 1, error)
            self.metrics.skipped.labels("oom" if isinstance(error, OutOfMemory) else "failed").inc()
            await trio.sleep(RETRY_S)
        finally:
            self.progress.finish_update()
        await self.canary.after_round(self.training)
        await self.evaluations.after_round()

    async def end(self) -> None:
        """After the last round: a checkpoint where it has none, an evaluation where one was asked for."""
        await self.training.save_last()
        await self.evaluations.end()
        enter("idle", self.progress, self.metrics)

    async def once(self, own: OwnExperience) -> None:
        """One round: sample, update, checkpoint, report."""
        enter("update", self.progress, self.metrics)
        sample = await self.externals.sample(self.progress.round + 1, own, self.canary.backoff)
        experience = drawn(own, sample, drawn_ms=self.now_ms(), policy_version=self.progress.policy_version)
        self.progress.history.count_used(experience.used_by_author)
        authors = [rollout.author for rollout in sample.rollouts]
        self.canary.used(authors)
        training_set = [*own.rollouts, *sample.rollouts]
        updated = await self.training.step(training_set)
        left_out = updated.stats.left_out if updated.stats else ()
        self.note_use(authors, [training_set[place].author for place in left_out])
        history = self.progress.history
        done = Round(
            number=self.progress.round,
            time_ms=self.now_ms(),
            drawn=experience,
            updated=updated,
            rejected=self.progress.shown.network.num(Verdict.REJECT),
            num_shared=history.num_shared,
            num_received=history.num_received,
        )
        count_round(self.metrics, self.manifest, done, own, sample)
        history.rounds.append(done)
        self.on_round(done)
