"""Rollback: what follows from the canary. A good measurement is remembered with its checkpoint; a fall takes the policy back to it.

The order makes every kill harmless. External rollouts are set aside first, which can be done twice. Then the child loads the
earlier checkpoint and writes it as the next round's: its renaming is the moment from which the fall is undone. A kill before it
resumes the fallen policy with a memory in which the measurement is still due, and so measures at once.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from swarmd.errors import ChildDied, LocalError, StateError
from swarmd.loops.canary import Canary, Finding
from swarmd.loops.ports import MODEL_HANG_S, Caller, NowMs, RunBlocking, Say
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.trust.canary import Memory

log = logging.getLogger(__name__)
ATTEMPTS_MAX = 3


@dataclass
class Rollback:
    """Acts on what the canary finds. `quarantine` sets aside what was received since a moment, and says how many rollouts.

    Own rollouts of a policy before `oldest_version` are of one that was taken back; `unsaved` is whether only the learner's memory
    knows of that.
    """

    canary: Canary
    learner: Caller
    quarantine: Callable[[int], int]
    run_blocking: RunBlocking
    progress: Progress
    metrics: Metrics
    now_ms: NowMs
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
        began_ms, memory = self.now_ms(), self.progress.canary
        finding = await self.canary.measure()
        if finding.verdict == "fallen" and memory.can_roll_back:
            try:
                return await self._go_back(finding, memory, state)
            except StateError as error:
                log.error("the policy cannot go back: %s", error)
                self._accept(finding, began_ms, saved=await save(), why=f"{error.what} ({error.why})")
        elif finding.verdict == "fallen":
            why = (
                "no external rollout was used since it was good"
                if memory.num_external == 0
                else "nothing is kept"
            )
            self._accept(finding, began_ms, saved=await save(), why=why)
        elif finding.verdict == "good" and await save():
            self.progress.canary = memory.good(finding.scores, round=self.progress.round, began_ms=began_ms)
            self.progress.canary_warning = ""
        else:
            self.progress.canary = memory.low(finding.scores, round=self.progress.round)
        return None

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
        num_quarantined = await self._set_aside(memory.suspect_since_ms)
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
            f"{memory.good_round}, and {num_quarantined} external rollouts were set aside."
        )
        if answer.get("lost"):
            log.warning("of the optimizer not all could be taken back: %s", answer["lost"])
        return answer

    async def _set_aside(self, since_ms: int) -> int:
        try:
            num: int = await self.run_blocking(self.quarantine, since_ms)
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

    def _accept(self, finding: Finding, began_ms: int, *, saved: bool, why: str) -> None:
        """Go on with a policy that fell for no reason that going back would mend."""
        memory, round = self.progress.canary, self.progress.round
        self.progress.canary = (
            memory.accepted(finding.scores, round=round, began_ms=began_ms)
            if saved
            else memory.unsettled(round)
        )
        self._warn(
            f"The policy fell by {finding.fall.drop:.3f} on held-out questions by round {round}, and was not taken back: {why}."
        )

    def _warn(self, text: str) -> None:
        self.progress.canary_warning = text
        log.warning("canary: %s", text)
        self.say(f"! canary     {text}")
