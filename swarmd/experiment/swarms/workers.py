"""A node's child processes as objects of this process: the same services, called at once, one call after the other."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

from swarmd.errors import SwarmdError


class Service(Protocol):
    """What a child process serves: `start`, and the operations named in `OPS`."""

    OPS: frozenset[str]

    def start(self) -> dict[str, Any]:
        """What is told to whoever started it."""


class InProcess:
    """`swarmd.loops.ports.Worker` over a blocking service of this process. Deterministic if the service is."""

    num_restarts = 0
    pid: int | None = None
    up = True

    def __init__(self, service: Service) -> None:
        self._service = service
        self.info: dict[str, Any] = service.start()

    async def call(self, op: str, *, within_s: float | None = None, **args: Any) -> Any:
        """The result of an operation; nobody could end a call of this very thread, so `within_s` is not used."""
        if op not in self._service.OPS:
            raise SwarmdError(f"no operation {op!r}")
        began_s = time.process_time()
        result = getattr(self._service, op)(**args)
        return _with_cpu_seconds(result, time.process_time() - began_s)

    async def wait_ready(self) -> dict[str, Any]:
        """It is."""
        return self.info


def _with_cpu_seconds(result: Any, seconds: float) -> Any:
    """How long an operation took as the time of this process alone: simulations that run side by side then measure alike."""
    if not isinstance(result, dict):
        return result
    return {key: seconds if key in ("seconds", "seconds_update") else value for key, value in result.items()}


class Port:
    """The same over a port of the gossip, whose operations are asynchronous."""

    num_restarts = 0
    pid: int | None = None
    up = True

    def __init__(self, port: Any) -> None:
        self._port = port
        self.info: dict[str, Any] = {"peer_id": port.peer_id, "addresses": []}

    async def call(self, op: str, *, within_s: float | None = None, **args: Any) -> Any:
        """The result of an operation."""
        return await getattr(self._port, op)(**args)

    async def wait_ready(self) -> dict[str, Any]:
        """It is."""
        return self.info


class SharedScorer:
    """One scorer for all nodes of a simulation, which asks no question twice: a score follows from question and text alone.

    Without it eight nodes would each score what seven others sent. Holds everything it was asked, some 100 bytes a completion.
    """

    OPS = frozenset({"questions", "score", "score_external"})

    def __init__(self, scorer: Any) -> None:
        self._scorer = scorer
        self._questions: dict[tuple[int, int], tuple[str, bool]] = {}
        self._scores: dict[tuple[int, int, str], tuple[float, str]] = {}
        self.info: dict[str, Any] | None = None

    def start(self) -> dict[str, Any]:
        """Start the scorer, once."""
        if self.info is None:
            self.info = self._scorer.start()
        return self.info

    def questions(self, items: Sequence[Sequence[int]]) -> dict[str, Any]:
        """As `ScorerService.questions`."""
        keys = [(dataset, seed) for dataset, seed in items]
        if missing := [key for key in dict.fromkeys(keys) if key not in self._questions]:
            answer = self._scorer.questions(missing)
            found = zip(answer["prompts"], answer["held_out"], strict=True)
            self._questions.update(zip(missing, found, strict=True))
        return {
            "prompts": [self._questions[key][0] for key in keys],
            "held_out": [self._questions[key][1] for key in keys],
        }

    def score(self, items: Sequence[Sequence[Any]], deadline_s: float) -> dict[str, Any]:
        """As `ScorerService.score`, for nothing: a measured time would differ from run to run, and with it whatever charges for it.

        What was not scored in time is not remembered.
        """
        missing = []
        for dataset, seed, texts in items:
            new = [text for text in dict.fromkeys(texts) if (dataset, seed, text) not in self._scores]
            if new:
                missing.append([dataset, seed, new])
        reasons: dict[str, int] = {}
        given: dict[tuple[int, int, str], tuple[float, str]] = {}
        if missing:
            answer = self._scorer.score(missing, deadline_s)
            reasons = answer["reasons"]
            for (dataset, seed, texts), rewards, reasons_G in zip(
                missing, answer["rewards"], answer["reasons_RG"], strict=True
            ):
                for text, reward, reason in zip(texts, rewards, reasons_G, strict=True):
                    given[dataset, seed, text] = reward, reason
            if "deadline" not in reasons:
                self._scores.update(given)
        known = {**self._scores, **given} if "deadline" in reasons else self._scores
        scores_RG = [[known[dataset, seed, text] for text in texts] for dataset, seed, texts in items]
        rewards_RG = [[reward for reward, _ in scores_G] for scores_G in scores_RG]
        beside = {"reasons_RG": [[reason for _, reason in scores_G] for scores_G in scores_RG]}
        questions = self.questions([item[:2] for item in items])
        return {**questions, "rewards": rewards_RG, "reasons": reasons, **beside, "cpu_s": 0.0, "held_s": 0.0}

    def score_external(
        self, items: Sequence[Sequence[Any]], deadline_s: float, held_s_max: float
    ) -> dict[str, Any]:
        """The same: nobody is a stranger in a simulation, and a limit that depends on the machine would make runs differ."""
        return self.score(items, deadline_s)

    def close(self) -> None:
        """End the scorer."""
        self._scorer.close()
