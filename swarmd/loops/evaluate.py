"""Evaluate: the mean reward on fixed held-out questions, which no node of the swarm trains on.

Held out is a property of the question's text (`Manifest.is_held_out`), so every node agrees on it without talking. The set
follows from the manifest alone: evaluations of different nodes and rounds are comparable.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from swarmd.clients.generator import Generator
from swarmd.clients.scorer import Address, ScoreItem, Scorer
from swarmd.errors import LocalError, TooFewQuestions
from swarmd.experience.seeds import Seeds
from swarmd.loops.ask import choose_dataset
from swarmd.loops.ports import NowMs
from swarmd.loops.progress import Progress, enter
from swarmd.loops.record import EvaluationRecord, mean
from swarmd.metrics import Metrics
from swarmd.protocol.manifest import Manifest

log = logging.getLogger(__name__)
# Reasons for which the scorer gives 0 and no text is to blame: such a look says nothing of the policy.
_OF_THE_MACHINE = frozenset({"zygote_died", "not_regenerated"})
# The machine's doing, or that of a text which hangs or ends a worker; `Evaluate._rewards` finds out. What else a text is given 0
# for (`cpu_limit`, `forbidden_syscall`, `forged_reply`, the guards' findings) no machine brings about: that is a wrong answer.
_OF_EITHER = frozenset({"deadline", "worker_died"})
# No Ed25519 key of a node equals this, so these seeds are nobody's training questions.
HELD_OUT_AUTHOR = b"swarmd held-out evaluation set.."
_CHUNK = 256


@dataclass
class Evaluate:
    """Draws a held-out set once, then measures the policy on it whenever asked.

    `author` names the set; the default is everybody's.
    """

    generator: Generator
    scorer: Scorer
    manifest: Manifest
    now_ms: NowMs
    num_questions: int
    num_completions: int
    author: bytes = HELD_OUT_AUTHOR
    _addresses: list[Address] | None = None
    _prompts: list[str] | None = None

    async def once(self, *, round: int) -> EvaluationRecord:
        """Mean reward, its standard error over questions, and the number of completions.

        The completions of one question are not independent, so the error is that of the questions' means.
        """
        datasets, rewards_RG = await self.rewards(self.num_completions, seed=round)
        means = [mean(rewards_G) for rewards_G in rewards_RG]
        centre = mean(means)
        variance = sum((m - centre) ** 2 for m in means) / max(1, len(means) - 1)
        return {
            "round": round,
            "time_ms": self.now_ms(),
            "mean": centre,
            "standard_error": math.sqrt(variance / len(means)),
            "num_questions": len(means),
            "num_completions": sum(map(len, rewards_RG)),
            "by_dataset": self._by_dataset(datasets, means),
        }

    async def rewards(
        self, num_completions: int, *, seed: int, num_least: int = 1
    ) -> tuple[list[int], list[list[float]]]:
        """The questions' datasets, and the rewards of so many completions of each.

        Raises:
            TooFewQuestions: there are fewer than `num_least`.
            LocalError: they could not be generated, or the scorer's own failure is all that came out.
        """
        addresses, prompts = await self._questions(num_least)
        generated = await self.generator.generate(prompts, num_completions, seed=seed)
        rewards_RG = await self._rewards(addresses, generated.texts_RG)
        return [address.dataset for address in addresses], rewards_RG

    async def _rewards(self, addresses: list[Address], texts_RG: list[list[str]]) -> list[list[float]]:
        """Rewards of a look that is one.

        A finding that may be either's is the machine's unless it comes twice with these texts and not with empty ones. Were it
        never counted, a policy taught to write what hangs the scorer would never be measured again; counted at once, a machine
        short of memory or time for a moment would be a fall.
        """
        for _ in range(2):
            rewards_RG, either = await self._score(addresses, texts_RG)
            if not either:
                return rewards_RG
        _, also_empty = await self._score(addresses, [[""] * len(texts) for texts in texts_RG])
        if also_empty:
            raise _unscored(also_empty)
        log.warning("the policy's own texts keep the scorer from scoring (%s): they count as wrong", either)
        return rewards_RG

    async def _score(
        self, addresses: list[Address], texts_RG: list[list[str]]
    ) -> tuple[list[list[float]], str]:
        """Rewards, and which findings there are that may be the machine's or a text's."""
        scores = await self.scorer.score(
            [ScoreItem(*address, texts) for address, texts in zip(addresses, texts_RG, strict=True)]
        )
        if failures := _counted(scores.reasons, _OF_THE_MACHINE):
            raise _unscored(failures)
        return scores.rewards_RG, _counted(scores.reasons, _OF_EITHER)

    def _by_dataset(self, datasets: list[int], means: list[float]) -> dict[str, tuple[float, int]]:
        """For each dataset name of the set, in the manifest's order: mean reward and number of questions."""
        by_name: dict[str, list[float]] = {dataset.name: [] for dataset in self.manifest.datasets}
        for dataset, value in zip(datasets, means, strict=True):
            by_name[self.manifest.datasets[dataset].name].append(value)
        return {name: (mean(values), len(values)) for name, values in by_name.items() if values}

    async def _questions(self, num_least: int) -> tuple[list[Address], list[str]]:
        if self._addresses is None or self._prompts is None:
            addresses: list[Address] = []
            prompts: list[str] = []
            seeds, counter = Seeds(b"", self.manifest.digest), 0
            # A manifest that holds nothing out would make this endless; a thousandth is the least it can hold out otherwise.
            while len(addresses) < self.num_questions and counter < 1000 * self.num_questions + 10 * _CHUNK:
                drawn = []
                for number in range(counter, counter + _CHUNK):
                    dataset = choose_dataset(self.manifest, seeds.rng("held-out", number))
                    drawn.append(Address(dataset, self.manifest.question_seed(self.author, dataset, number)))
                counter += _CHUNK
                made = await self.scorer.questions(drawn)
                for address, prompt, held_out in zip(drawn, made.prompts, made.held_out, strict=True):
                    # an empty one is a question that could not be made
                    if prompt and held_out and prompt not in prompts:
                        addresses.append(address)
                        prompts.append(prompt)
            self._addresses, self._prompts = addresses[: self.num_questions], prompts[: self.num_questions]
        if (num := len(self._addresses)) < num_least:
            raise TooFewQuestions(
                f"the swarm's manifest holds {num or 'no'} question out, and a measurement needs {num_least}",
                fix="set evaluate.num_questions = 0 and trust.canary = off, or take a swarm with more questions",
            )
        return self._addresses, self._prompts


@dataclass
class Evaluations:
    """When the policy is evaluated: before the first round, every so many rounds, and at the end where that was asked for.

    `evaluate` is None where nothing is; `tell` gets each result.
    """

    evaluate: Evaluate | None
    every_rounds: int
    progress: Progress
    metrics: Metrics
    tell: Callable[[EvaluationRecord], None]

    async def begin(self) -> None:
        """Before the first round of a policy: how good it is untrained."""
        if self.progress.round == 0 and not self.progress.stop_requested:
            await self._once()

    async def after_round(self) -> None:
        if self.every_rounds > 0 and self.progress.round % self.every_rounds == 0:
            await self._once()

    async def end(self) -> None:
        """After the last round, unless that one was evaluated."""
        done = self.progress.history.evaluations
        if self.progress.evaluate_at_stop and not (done and done[-1]["round"] == self.progress.round):
            await self._once()

    async def _once(self) -> None:
        if self.evaluate is None:
            return
        enter("evaluate", self.progress, self.metrics)
        try:
            result = await self.evaluate.once(round=self.progress.round)
        except LocalError as error:
            log.warning("evaluation failed: %s", error)
            return
        self.metrics.eval_score.set(result["mean"])
        self.metrics.eval_error.set(result["standard_error"])
        self.progress.history.evaluations.append(result)
        self.tell(result)


def _counted(reasons: dict[str, int], kinds: frozenset[str]) -> str:
    """`3 deadline, 1 worker_died`; empty where there is none of these kinds."""
    return ", ".join(f"{num} {kind}" for kind, num in sorted(reasons.items()) if num and kind in kinds)


def _unscored(failures: str) -> LocalError:
    return LocalError(
        "the scorer could not score the held-out answers",
        failures,
        "look for a lack of memory, processes or time on this machine; it is measured again later",
    )
