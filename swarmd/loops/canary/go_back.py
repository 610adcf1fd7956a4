"""Rollback: what follows from the canary. A good measurement is remembered with its checkpoint; a fall takes the policy back to it.

The order makes every kill harmless. External rollouts are set aside first, which can be done twice. Then the child loads the
earlier checkpoint and writes it as the next round's: its renaming is the moment from which the fall is undone. A kill before it
resumes the fallen policy with a memory in which the measurement is still due, and so measures at once.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from swarmd.errors import ChildDied, LocalError, StateError
from swarmd.loops.canary.measure import Canary, Finding
from swarmd.loops.canary.memory import Memory
from swarmd.loops.ports import MODEL_HANG_S, Caller, RunBlocking, Say
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics

log = logging.getLogger(__name__)
ATTEMPTS_MAX = 3


@dataclass
class Rollback:
    """Acts on what the canary finds. `quarantine` sets aside what is held of some authors, and says how many rollouts.

    Own rollouts of a policy before `oldest_version` are of one that was taken back; `unsaved` is whether only the learner's memory
    knows of that.
    """

    canary: Canary
    learner: Caller
    quarantine: Callable[[Collection[bytes]], int]
    run_blocking: RunBlocking
    progress: Progress
    metrics: Metrics
    say: Say
    oldest_version: int = 0
    unsaved: bool = False

    async def once(
        self, *, save: Callable[[], Awaitable[bool]], state: Callable[[int], dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Measure and act; the child's answer when it went back, which the caller makes its own round of.

        Args:
            save: makes sure that this round has a checkpoint; whether it has.
            state: a round's state for its checkpoint.

        Raises:
            LocalError: it could not be measured, or not be gone back; it stays due.
        """
        memory = self.progress.canary
        finding = await self.canary.measure()
        if finding.verdict == "fallen" and memory.can_roll_back:
            try:
                return await self._go_back(finding, memory, state)
            except StateError as error:
                log.error("the policy cannot go back: %s", error)
                self._accept(finding, saved=await save(), why=f"{error.what} ({error.why})")
        elif finding.verdict == "fallen":
            why = (
                "no external rollout was used since it was good"
                if memory.num_external == 0
                else "nothing is kept"
            )
            self._accept(finding, saved=await save(), why=why)
        elif finding.verdict == "low" and memory.num_external:
            self.progress.canary = memory.low(finding.scores, round=self.progress.round)
        elif await save():
            self.progress.canary = memory.good(finding.scores, round=self.progress.round)
            self.progress.canary_warning = ""
        else:
            self.progress.canary = memory.unsaved(finding.scores, round=self.progress.round)
        return None

    def tell(self) -> None:
        """Show what holds after a round: for how long the node learns alone, or who is not back yet."""
        backoff, round = (
            self.progress.canary.backoff,
            self.progress.rounds[-1] if self.progress.rounds else {},
        )
        rounds_left = self.canary.rounds_left + (backoff.num_alone - 1) * self.canary.every_rounds
        num_alone = max(1, rounds_left) if backoff.alone else 0
        num_out, num_authors = round.get("num_authors_out", 0), round.get("num_authors", 0)
        self.metrics.falls.set(len(backoff.falls))
        self.metrics.alone_rounds.set(num_alone)
        self.metrics.authors_out.set(num_out)
        fell = f"the policy fell with others' rollouts by round {', '.join(map(str, backoff.falls))}"
        why = fell if backoff.falls else "the last measurement left open whether the policy fell"
        text = ""
        if num_alone:
            text = f"Learning alone for {num_alone} more rounds: {why}."
        elif num_out:
            text = f"Rollouts of {num_authors - num_out} of {num_authors} authors may be drawn, those of others come back: "
            text += f"{fell if backoff.falls else 'they were there when the policy fell'}."
        self.progress.alone_warning = text

    async def is_lost(self, version: int) -> bool:
        """Whether the learner is at the fallen policy again; `version` is that of the own rollouts at hand, which may show it.

        Raises:
            LocalError: the learner does not say.
        """
        if version >= self.oldest_version and not self.unsaved:
            return False
        now = await self.learner.call("info", within_s=MODEL_HANG_S)
        return now["policy_version"] < self.oldest_version and self.resumed(await self.learner.wait_ready())

    def resumed(self, info: dict[str, Any]) -> bool:
        """The learner died and answers with `info`; whether it was before its return was on disk.

        As after a restart of the node then: what it resumed is not refused, and measured at once.
        """
        if info["policy_version"] >= self.oldest_version:
            return False
        log.warning(
            "the policy's return was lost with the learner, which is at version %d again",
            info["policy_version"],
        )
        self.oldest_version, self.unsaved = info["policy_version"], False
        self.progress.policy_version = info["policy_version"]
        self.progress.canary_state = info["state"].get("canary")
        self.canary.resume()
        due_round = self.progress.round - self.canary.every_rounds
        memory = self.progress.canary
        self.progress.canary = replace(memory, measured_round=min(memory.measured_round, due_round))
        return True

    async def _go_back(
        self, finding: Finding, memory: Memory, state: Callable[[int], dict[str, Any]]
    ) -> dict[str, Any]:
        number = self.progress.round + 1
        num_quarantined = await self._set_aside(memory.backoff.block)
        self.progress.canary = memory.rolled_back(number)
        try:
            answer = await self._call(memory.good_round, number, state(number))
        except LocalError:
            self.progress.canary = memory
            raise
        self.oldest_version, self.unsaved = answer["policy_version"], not answer.get("checkpoint")
        self.metrics.rollbacks.inc()
        self._warn(
            f"The policy fell by {finding.fall.drop:.3f} on held-out questions; in round {number} it went back to round "
            f"{memory.good_round}, and {num_quarantined} rollouts of the authors used since then were set aside."
        )
        if answer.get("lost"):
            log.warning("of the optimizer not all could be taken back: %s", answer["lost"])
        return answer

    async def _set_aside(self, authors: Collection[bytes]) -> int:
        try:
            num: int = await self.run_blocking(self.quarantine, authors)
        except LocalError as error:
            log.warning("external rollouts could not be set aside: %s", error)
            return 0
        self.metrics.quarantined.inc(num)
        return num

    async def _call(self, to_round: int | None, number: int, state: dict[str, Any]) -> dict[str, Any]:
        """The child's rollback, repeated if it dies under it, unless its checkpoint shows that it was done."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                return dict(
                    await self.learner.call(
                        "rollback", to_round=to_round, round=number, state=state, within_s=MODEL_HANG_S
                    )
                )
            except ChildDied as error:
                log.warning("update child lost while it went back (attempt %d): %s", attempt + 1, error)
                info = await self.learner.wait_ready()
                if info["state"].get("round") == number:
                    return {"policy_version": info["policy_version"], "checkpoint": info["resumed_from"]}
        raise LocalError(f"the update child died {ATTEMPTS_MAX} times while it went back to round {to_round}")

    def _accept(self, finding: Finding, *, saved: bool, why: str) -> None:
        """Go on with a policy that fell for no reason that going back would mend."""
        memory, round = self.progress.canary, self.progress.round
        self.progress.canary = (
            memory.accepted(finding.scores, round=round) if saved else memory.unsettled(round)
        )
        self._warn(
            f"The policy fell by {finding.fall.drop:.3f} on held-out questions by round {round}, and was not taken back: {why}."
        )

    def _warn(self, text: str) -> None:
        self.progress.canary_warning = text
        log.warning("canary: %s", text)
        self.say(f"! canary     {text}")
