"""A node's child processes as objects of this process: the same services, called at once, one call after the other."""

import time
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import ClassVar, Protocol

from swarmd.clients.policy import Generated, Updated
from swarmd.clients.scorer import Address, Questions, ScoreItem, ScorerInfo, ScorerOps, Scores
from swarmd.errors import SwarmdError


class Service(Protocol):
    """What a child process serves: `start`, and the operations named in `OPS`."""

    OPS: ClassVar[frozenset[str]]

    def start(self) -> object:
        """What is told to whoever started it."""


class InProcess:
    """`swarmd.clients.worker.Worker` over a service of this process. Deterministic if the service is."""

    num_restarts = 0
    pid: int | None = None
    up = True
    silent_s = 0.0

    def __init__(self, service: Service) -> None:
        self._service = service
        self.info = service.start()

    async def call(self, op: str, *, within_s: float | None = None, **args: object) -> object:
        """The result of an operation; nobody could end a call of this very thread, so `within_s` is not used."""
        if op not in self._service.OPS:
            raise SwarmdError(f"no operation {op!r}")
        began_s = time.process_time()
        result = getattr(self._service, op)(**args)
        if isawaitable(result):
            return await result
        return _with_cpu_seconds(result, time.process_time() - began_s)

    async def wait_ready(self) -> object:
        return self.info


def _with_cpu_seconds(result: object, seconds: float) -> object:
    """How long an operation took as the time of this process alone: simulations that run side by side then measure alike."""
    if isinstance(result, Updated) and result.stats is not None:
        return result._replace(seconds=seconds, stats=replace(result.stats, seconds=seconds))
    return result._replace(seconds=seconds) if isinstance(result, Generated) else result


class SharedScorer(ScorerOps):
    """One scorer for all nodes of a simulation, which asks no question twice: a score follows from question and text alone.

    Without it eight nodes would each score what seven others sent. Holds everything it was asked, some 100 bytes a completion.
    """

    def __init__(self, scorer: ScorerOps) -> None:
        self._scorer = scorer
        self._questions: dict[Address, tuple[str, bool]] = {}
        self._scores: dict[tuple[Address, str], tuple[float, str]] = {}
        self._info: ScorerInfo | None = None

    def start(self) -> ScorerInfo:
        """Start the scorer, once."""
        self._info = self._info or self._scorer.start()
        return self._info

    def questions(self, addresses: Sequence[Address]) -> Questions:
        if missing := [address for address in dict.fromkeys(addresses) if address not in self._questions]:
            self._questions.update(
                zip(missing, zip(*self._scorer.questions(missing), strict=True), strict=True)
            )
        found = [self._questions[address] for address in addresses]
        return Questions([prompt for prompt, _ in found], [held_out for _, held_out in found])

    def score(self, items: Sequence[ScoreItem], deadline_s: float) -> Scores:
        """As `ScorerService.score`, for nothing: a measured time would differ from run to run, and with it whatever charges for it.

        What was not scored in time is not remembered.
        """
        addresses = [Address(item.dataset, item.seed) for item in items]
        missing = [
            ScoreItem(*address, new)
            for address, item in zip(addresses, items, strict=True)
            if (new := [text for text in dict.fromkeys(item.texts) if (address, text) not in self._scores])
        ]
        given: dict[tuple[Address, str], tuple[float, str]] = {}
        if missing:
            new_scores = self._scorer.score(missing, deadline_s)
            for item, rewards, reasons in zip(
                missing, new_scores.rewards_RG, new_scores.reasons_RG, strict=True
            ):
                address = Address(item.dataset, item.seed)
                scores = zip(rewards, reasons, strict=True)
                given.update(zip([(address, text) for text in item.texts], scores, strict=True))
            if not new_scores.reasons["deadline"]:
                self._scores.update(given)
        found = ChainMap(given, self._scores)
        scores_RG = [
            [found[address, text] for text in item.texts]
            for address, item in zip(addresses, items, strict=True)
        ]
        return Scores(
            *self.questions(addresses),
            rewards_RG=[[reward for reward, _ in scores_G] for scores_G in scores_RG],
            reasons_RG=[[reason for _, reason in scores_G] for scores_G in scores_RG],
            cpu_s=0.0,
            held_s=0.0,
        )

    def score_external(self, items: Sequence[ScoreItem], deadline_s: float, held_s_max: float) -> Scores:
        """The same: nobody is a stranger in a simulation, and a limit that depends on the machine would make runs differ."""
        return self.score(items, deadline_s)

    def close(self) -> None:
        self._scorer.close()
