"""Canary: remembers a good measurement with its checkpoint, and takes a policy that fell back to that checkpoint.

The order makes every kill harmless. External rollouts are set aside first, which can be done twice. Then the child loads the
earlier checkpoint and writes it as the next round's: its renaming is the moment from which the fall is undone. A kill before it
resumes the fallen policy with a memory in which the measurement is still due, and so measures at once.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import trio

from swarmd.clients.policy import PolicyInfo, State
from swarmd.errors import LocalError, StateError, TooFewQuestions
from swarmd.loops.canary.backoff import Backoff
from swarmd.loops.canary.measure import Finding, Measure
from swarmd.loops.canary.memory import Memory
from swarmd.loops.ports import RunBlocking, Say
from swarmd.loops.progress import Progress, enter
from swarmd.loops.training import Training
from swarmd.metrics import Metrics

log = logging.getLogger(__name__)
# Between two questions to a learner that does not answer.
RETRY_S = 1.0


@dataclass
class Canary:
    """The watch of `loops.canary.watch`. `quarantine` sets aside what is held of some authors, and says how many rollouts.

    `memory` goes into every checkpoint. Own rollouts of a policy before `oldest_version` are of a policy that was taken back;
    `returned_in` is the round in which that happened, 0 for none. `good_before` is the good round before the memory's.
    `off`: nothing can ever be measured.
    """

    measure: Measure
    every_rounds: int
    memory: Memory
    quarantine: Callable[[Collection[bytes]], int]
    run_blocking: RunBlocking
    progress: Progress
    metrics: Metrics
    say: Say
    oldest_version: int = 0
    returned_in: int = 0
    good_before: int | None = None
    off: bool = False

    @property
    def backoff(self) -> Backoff:
        return self.memory.backoff

    def used(self, authors: Sequence[bytes]) -> None:
        self.memory = self.memory.used(authors)

    def to_state(self) -> State:
        """The memory, and the round whose checkpoint has to be kept."""
        return {"canary": self.memory.to_state(), "keep_round": self.memory.good_round}

    @property
    def rounds_left(self) -> int:
        """Rounds until the next measurement; after a kill between a measurement and its consequence, none."""
        memory = self.memory
        return memory.measured_round + memory.backoff.rounds(self.every_rounds) - self.progress.round

    async def after_round(self, training: Training) -> None:
        if self.rounds_left <= 0 and not self.progress.stop_requested and not self.off:
            if training.handed_over:
                enter("evaluate", self.progress, self.metrics)
                try:
                    await self._once(training)
                except TooFewQuestions as error:
                    self.off = True
                    self.say(f"! canary     off: {error.what}")
                except LocalError as error:
                    log.warning("the canary has to wait a round: %s", error)
            else:
                log.warning("the canary has to wait: generation has not got the policy's weights")
        self._tell()

    async def took_back(self, version: int, training: Training) -> bool:
        """Whether the policy version that own rollouts were generated with was taken back since.

        The other generation child may not have got the earlier weights, or the learner may have lost them with its return: then all
        later rollouts would be refused, too, and so both are looked after here. Own rollouts set the pace: each entry asks once.
        """
        unsaved = (training.pace.saved_round or 0) < self.returned_in
        if version >= self.oldest_version and not unsaved:
            return False
        try:
            info = await training.resumed_before(self.oldest_version)
        except LocalError as error:
            log.warning("which policy the learner is at cannot be told: %s", error)
            await trio.sleep(RETRY_S)
            return True
        if info is not None or version < self.oldest_version:
            await training.hand_over()
            await self.after_round(training)
        return version < self.oldest_version

    def resumed(self, info: PolicyInfo) -> None:
        """The learner died, and goes on from what `info` says. Where that is before its return, the return is lost.

        As after a restart of the node then: what it resumed is not refused, and measured at once. Where only rounds are lost, the
        memory goes back with them.
        """
        version, lost = info.policy_version, self.memory.measured_round > self.progress.round
        if version >= self.oldest_version and not lost:
            return
        self.memory = Memory.from_state(info.state.get("canary"), self.measure.key)
        if version < self.oldest_version:
            log.warning(
                "the policy's return was lost with the learner, which is at version %d again", version
            )
            self.oldest_version, self.returned_in = version, 0
            due_round = self.progress.round - self.every_rounds
            self.memory = replace(self.memory, measured_round=min(self.memory.measured_round, due_round))

    def unsaved(self, round: int) -> None:
        """A round's checkpoint was begun and failed: if it was that of a good round, the good one before it is to go back to."""
        if self.memory.good_round == round:
            self.memory = replace(self.memory, good_round=self.good_before)

    async def _once(self, training: Training) -> None:
        """Measure and act. Raises LocalError where the policy could not be measured, or not go back; both stay due."""
        memory, round = self.memory, self.progress.round
        finding = await self.measure.once(memory.best, round=round)
        if finding.verdict == "fallen" and memory.can_roll_back:
            try:
                await self._go_back(finding, memory, training)
            except StateError as error:
                log.error("the policy cannot go back: %s", error)
                await self._accept(finding, training, why=f"{error.what} ({error.why})")
        elif finding.verdict == "fallen":
            alone = memory.num_external == 0
            why = "no external rollout was used since it was good" if alone else "nothing is kept"
            await self._accept(finding, training, why=why)
        elif finding.verdict == "low" and memory.num_external:
            self.memory = memory.low(finding.scores, round=round)
        elif await training.save_good():
            self.good_before = memory.good_round
            self.memory = memory.good(finding.scores, round=round)
            self._show(fell="")
        else:
            self.memory = memory.unsaved(finding.scores, round=round)

    async def _go_back(self, finding: Finding, memory: Memory, training: Training) -> None:
        number = self.progress.round + 1
        num_quarantined = await self._set_aside(memory.backoff.block)
        self.memory = memory.rolled_back(number)
        try:
            answer = await training.go_back(memory.good_round)
        except LocalError:
            self.memory = memory
            raise
        self.oldest_version, self.returned_in = answer.policy_version, number
        self.metrics.rollbacks.inc()
        self._warn(
            f"The policy fell by {finding.fall.drop:.3f} on held-out questions; in round {number} it went back to round "
            f"{memory.good_round}, and {num_quarantined} rollouts of the authors used since then were set aside."
        )
        if answer.lost:
            log.warning("of the optimizer not all could be taken back: %s", answer.lost)

    async def _set_aside(self, authors: Collection[bytes]) -> int:
        try:
            num = await self.run_blocking(self.quarantine, authors)
        except LocalError as error:
            log.warning("external rollouts could not be set aside: %s", error)
            return 0
        self.metrics.quarantined.inc(num)
        return num

    async def _accept(self, finding: Finding, training: Training, *, why: str) -> None:
        """Go on with a policy that fell for no reason that going back would mend."""
        round, saved = self.progress.round, await training.save()
        accepted = self.memory.accepted(finding.scores, round=round)
        self.memory = accepted if saved else self.memory.unsettled(round)
        self._warn(
            f"The policy fell by {finding.fall.drop:.3f} on held-out questions by round {round}, and was not taken back: {why}."
        )

    def _warn(self, text: str) -> None:
        self._show(fell=text)
        log.warning("canary: %s", text)
        self.say(f"! canary     {text}")

    def _tell(self) -> None:
        """Show what holds after a round: for how long the node learns alone, or who is not back yet."""
        backoff, rounds = self.backoff, self.progress.history.rounds
        rounds_left = self.rounds_left + (backoff.num_alone - 1) * self.every_rounds
        num_alone = max(1, rounds_left) if backoff.alone else 0
        num_authors, num_out = (
            (rounds[-1].drawn.num_authors, rounds[-1].drawn.num_authors_out) if rounds else (0, 0)
        )
        self.metrics.falls.set(len(backoff.falls))
        self.metrics.alone_rounds.set(num_alone)
        self.metrics.authors_out.set(num_out)
        fell = f"the policy fell with others' rollouts by round {', '.join(map(str, backoff.falls))}"
        text = ""
        if num_alone:
            why = fell if backoff.falls else "the last measurement left open whether the policy fell"
            text = f"Learning alone for {num_alone} more rounds: {why}."
        elif num_out:
            why = fell if backoff.falls else "they were there when the policy fell"
            may_come = f"Rollouts of {num_authors - num_out} of {num_authors} authors may be drawn"
            text = f"{may_come}, those of others come back: {why}."
        self._show(kept_out=text)

    def _show(self, **changes: str) -> None:
        self.progress.shown.canary = replace(self.progress.shown.canary, **changes)
