"""Update: I own rollouts, J of the swarm's, one step of the policy. A round is one pass of this loop.

The round's number, and everything else a restarted node needs to go on, is written into the checkpoint by the child that holds the
weights: there is one moment at which a round counts, the renaming of that checkpoint's directory.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import trio

from swarmd.errors import BY_NAME, ChildDied, LocalError, OutOfMemory
from swarmd.experience.buffer import Sample
from swarmd.experience.fitting import EXTERNAL_BYTES_MAX, within_bytes
from swarmd.experience.own import Balance, OwnExperience
from swarmd.experience.rollouts import ScoredRollout
from swarmd.experience.streams import Streams
from swarmd.loops.canary.go_back import Rollback
from swarmd.loops.evaluate import Evaluate
from swarmd.loops.hand_over import handed_over
from swarmd.loops.ports import MODEL_HANG_S, Caller, NowMs, RunBlocking
from swarmd.loops.progress import Progress
from swarmd.loops.record import count_round, finite_or_none, round_record, used_by_author
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest

log = logging.getLogger(__name__)
# One training set that ends the child this often is given up; the node goes on with the next.
ATTEMPTS_MAX = 3
RETRY_S = 1.0

NoteUse = Callable[[Sequence[bytes], Sequence[bytes]], None]
Admitted = Callable[[Collection[bytes]], Collection[bytes]]
Draw = Callable[[int, random.Random, Sequence[ScoredRollout], Admitted], Sample]


@dataclass
class Update:
    """The update loop. `num_external` is J of the mix, `draw` samples so many external rollouts beside a round's own ones, of the
    authors whom the canary's memory admits, `hand_over` brings new weights to another generation child, `rollback` acts on the
    canary, and `note_use` is told the authors of a round's external rollouts and of those that the update left out.
    """

    learner: Caller
    draw: Draw
    run_blocking: RunBlocking
    streams: Streams
    manifest: Manifest
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
    num_external: int
    checkpoint_every_rounds: int
    evaluate: Evaluate | None
    evaluate_every_rounds: int
    rounds_max: int | None
    on_round: Callable[[dict[str, Any]], None]
    on_evaluation: Callable[[dict[str, Any]], None]
    hand_over: Callable[[], Awaitable[Any]] | None = None
    balance: Balance = "fixed"
    rollback: Rollback | None = None
    note_use: NoteUse = lambda used, left_out: None
    _saved_round: int | None = None
    _handed_over: bool = True

    async def run(self) -> None:
        """Rounds until the node is asked to stop, or `rounds_max` are done."""
        await self.begin()
        while self.rounds_max is None or self.progress.round < self.rounds_max:
            self._phase("wait")
            own = await self.progress.take_own()
            if own is None:
                break
            if await self._was_taken_back(own):
                log.info("own rollouts of a policy that was taken back are not trained on")
                self.progress.finish_update()
                continue
            await self.one(own)
        else:
            self.progress.evaluate_at_stop = True
        await self.end()

    async def _was_taken_back(self, own: OwnExperience) -> bool:
        """Whether own rollouts are of a policy that was taken back, with what is needed lest all later ones are, too.

        The other generation child may not have got the earlier weights, or the learner may have lost them with its return. Own
        rollouts set the pace: each batch asks once.
        """
        if self.rollback is None:
            return False
        version = own.rollouts[0].policy_version
        try:
            lost = await self.rollback.is_lost(version)
        except LocalError as error:
            log.warning("which policy the learner is at cannot be told: %s", error)
            await trio.sleep(RETRY_S)
            return True
        if lost or version < self.rollback.oldest_version:
            await self._hand_over()
            await self._check_canary()
        return version < self.rollback.oldest_version

    async def begin(self) -> None:
        """Before the first round of a policy: how good it is untrained. After a restart: what the canary was about to do."""
        if self.progress.round and not self.progress.rounds:
            self._saved_round = self.progress.round  # the one that the node went on from
        if self.rollback is not None:
            self.rollback.canary.resume()
            await self._check_canary()
            self.rollback.tell()
        if self.evaluate is not None and self.progress.round == 0 and not self.progress.stop_requested:
            await self._evaluate()

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
        await self._check_canary()
        if self.rollback is not None:
            self.rollback.tell()
        if self._evaluation_is_due():
            await self._evaluate()

    async def end(self) -> None:
        """After the last round: a checkpoint where it has none, an evaluation where one was asked for."""
        await self._save_last()
        if self.evaluate is not None and self.progress.evaluate_at_stop and not self._evaluated_now():
            await self._evaluate()
        self._phase("idle")

    async def _save_last(self) -> None:
        """A checkpoint of the last round, where they are written less often than every round."""
        if self.checkpoint_every_rounds > 1 and self.progress.rounds:
            await self._save()

    async def _save(self) -> bool:
        """A checkpoint of the round as it is, unless there is one; whether there is."""
        number = self.progress.round
        if self._saved_round == number:
            return True
        try:
            answer = await self.learner.call(
                "update",
                rollouts=[],
                round=number,
                state=self._state(number),
                checkpoint=True,
                within_s=MODEL_HANG_S,
            )
        except LocalError as error:
            self.progress.checkpoint_error = error
            return False
        self._count_checkpoint({**answer, "round": number}, self.now_ms() / 1000)
        return self._saved_round == number

    async def _check_canary(self) -> None:
        """Measure the policy if that is due; one that fell goes back, and that is a round of its own."""
        if self.rollback is None or self.progress.stop_requested or not self.rollback.canary.is_due:
            return
        if not self._handed_over:
            log.warning("the canary has to wait: generation has not got the policy's weights")
            return
        self._phase("evaluate")
        try:
            answer = await self.rollback.once(save=self._save, state=self._state)
        except LocalError as error:
            log.warning("the canary has to wait a round: %s", error)
            return
        if answer is None:
            return
        self.progress.round += 1
        self.progress.policy_version = answer["policy_version"]
        self._count_checkpoint({**answer, "round": self.progress.round}, self.now_ms() / 1000)
        await self._hand_over()

    async def once(self, own: OwnExperience) -> None:
        """One round: sample, update, checkpoint, report."""
        number = self.progress.round + 1
        self._phase("update")
        sample = await self._sample(number, own)
        drawn_ms, version = self.now_ms(), self.progress.policy_version
        self.progress.count_used(used_by_author(sample))
        self.progress.canary = self.progress.canary.used([rollout.author for rollout in sample.rollouts])
        training_set = [*own.rollouts, *sample.rollouts]
        stats = await self._step(number, training_set)
        left_out = [training_set[place].author for place in stats.pop("left_out", ())]
        self.note_use([rollout.author for rollout in sample.rollouts], left_out)
        self.progress.round, self.progress.policy_version = number, stats["policy_version"]
        await self._hand_over()
        record = {
            "round": number,
            "time_ms": self.now_ms(),
            **round_record(own, sample, drawn_ms=drawn_ms, policy_version=version),
            "rejected": self.progress.network.get("stats", {}).get("rejected", 0),
            "num_shared": self.progress.num_shared,
            "num_received": self.progress.num_received,
            **{key: finite_or_none(value) for key, value in stats.items()},
        }
        count_round(self.metrics, self.manifest, record, own, sample)
        self._count_checkpoint(record, record["time_ms"] / 1000)
        self.progress.rounds.append(record)
        self.on_round(record)

    async def _sample(self, number: int, own: OwnExperience) -> Sample:
        """External rollouts, or what there is. A buffer that cannot be used costs the round its externals, not its update."""
        num = own.num_external(self.num_external, self.balance)
        backoff = self.progress.canary.backoff  # empty where there is no canary
        if backoff.alone:
            num = 0
        try:
            rng = self.streams.rng("sample", number)
            admitted = partial(backoff.admitted, rng=self.streams.rng("return", number))
            sample = cast(Sample, await self.run_blocking(self.draw, num, rng, own.rollouts, admitted))
        except LocalError as error:
            log.warning("no external rollouts for round %d: %s", number, error)
            return Sample([], num_informative_pool=0, num_pool=0, shortfall=num)
        fitting = within_bytes(sample.rollouts, EXTERNAL_BYTES_MAX)
        num_left_out = len(sample.rollouts) - len(fitting)
        measured = [replace(r, capability=self.progress.capability.ratio(r.author)) for r in fitting]
        return replace(sample, rollouts=measured, shortfall=sample.shortfall + num_left_out)

    async def _step(self, number: int, training_set: list[ScoredRollout]) -> dict[str, Any]:
        """The update itself, repeated if the child dies under it, unless its checkpoint shows that it was done."""
        wire = [rollout.to_wire() for rollout in training_set]
        checkpoint = number % self.checkpoint_every_rounds == 0 or number == self.rounds_max
        for attempt in range(ATTEMPTS_MAX):
            try:
                return dict(
                    await self.learner.call(
                        "update",
                        rollouts=wire,
                        round=number,
                        state=self._state(number),
                        checkpoint=checkpoint,
                        within_s=MODEL_HANG_S,
                    )
                )
            except ChildDied as error:
                log.warning("update child lost in round %d (attempt %d): %s", number, attempt + 1, error)
                info = await self.learner.wait_ready()
                self.progress.policy_version = info["policy_version"]
                if self.rollback is not None:
                    self.rollback.resumed(info)
                if info["state"].get("round") == number:
                    return {"policy_version": info["policy_version"], "checkpoint": info["resumed_from"]}
        raise LocalError(f"the update child died {ATTEMPTS_MAX} times on the same training set")

    def _state(self, number: int) -> dict[str, Any]:
        """What a restarted node goes on with, beside weights and optimizer; `Progress.resume` takes it back."""
        canary = self.progress.canary
        remembered = {"canary": canary.to_state(), "keep_round": canary.good_round}
        return {
            **(remembered if self.rollback is not None else {}),
            "round": number,
            "manifest": self.manifest.digest.hex(),
            "used_by_author": self.progress.used_by_author,
            "num_shared": self.progress.num_shared,
            "num_received": self.progress.num_received,
        }

    async def _hand_over(self) -> None:
        """What cannot be handed over now is superseded by the next round's, or after a return by what `_was_taken_back` tries."""
        self._handed_over = await handed_over(self.hand_over, self.metrics)

    def _evaluation_is_due(self) -> bool:
        every = self.evaluate_every_rounds
        return self.evaluate is not None and every > 0 and self.progress.round % every == 0

    def _evaluated_now(self) -> bool:
        return (
            bool(self.progress.evaluations) and self.progress.evaluations[-1]["round"] == self.progress.round
        )

    async def _evaluate(self) -> None:
        assert self.evaluate is not None
        self._phase("evaluate")
        try:
            result = await self.evaluate.once(round=self.progress.round)
        except LocalError as error:
            log.warning("evaluation failed: %s", error)
            return
        self.metrics.eval_score.set(result["mean"])
        self.metrics.eval_error.set(result["standard_error"])
        self.progress.evaluations.append(result)
        self.on_evaluation(result)

    def _phase(self, phase: str) -> None:
        self.progress.phase = phase
        self.metrics.set_phase(phase)

    def _count_checkpoint(self, record: dict[str, Any], seconds: float) -> None:
        if record.get("checkpoint"):
            self.metrics.checkpoint_last.set(seconds)
            self.metrics.checkpoint_saves.labels("ok").inc()
            self.progress.checkpoint_error = None
            self._saved_round = record["round"]
            if self.rollback is not None:
                self.rollback.unsaved = False
        elif failure := record.get("checkpoint_error"):
            self.metrics.checkpoint_saves.labels("failed").inc()
            kind = BY_NAME.get(failure["kind"], LocalError)
            self.progress.checkpoint_error = kind(failure["what"], failure["why"], failure["fix"])
            log.warning("round %d has no checkpoint: %s", record["round"], self.progress.checkpoint_error)
