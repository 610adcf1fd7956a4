"""Proof before the first peer that the lockdown leaves our own scorers alone: known texts, scored with it and without.

Another libc, Python or kernel may make a system call that the filter's list lacks. An honest text would then end its worker, and
its author would be blamed for an attack. So a node first scores texts of its own for every dataset, behind the same lockdown.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from swarmd.errors import LocalError
from swarmd.questions.extract import AnswerFormat
from swarmd.questions.family import Item
from swarmd.questions.sandbox import Step
from swarmd.questions.scorers import Reason, Score
from swarmd.questions.scoring import score_items
from swarmd.questions.zygote_process import ZygoteDied, ZygoteProcess

# Seeds. The zygote warms its scorers with others, so that a worker does not owe its imports to the same text. calendar_arithmetic
# has seven kinds of questions, and these seeds meet six.
SEEDS = range(100, 108)
# All datasets on offer take 0.2 s; a start on a busy core takes a multiple.
PROOF_S_MAX = 60.0
_NAMED_MAX = 4
# Reasons that say how busy the machine is, or that nothing can be said: no proof against the lockdown.
_NO_WORD = (Reason.DEADLINE, Reason.ZYGOTE_DIED)
_ODD = (
    "-2.75e-3",
    "1٣½",
    "[[1.5, 2], ['3']]",
    "¬(P ∧ Q) → R",
    "$\\frac{3}{4}$",
    "Tuesday",
    "\u3000答え \U0001d7d9",
    "9" * 100,
)
_PROSE = "so we add the next one, and " * 400
# 11 kB each: a message that the memory left over from the zygote's start does not hold, so that the kernel is asked for more.
_NUM_LONG = 400


@dataclass
class Proof:
    """The worker's lockdown steps; and what happened, for each dataset whose scores differ from the zygote's."""

    steps: Step
    faults: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        named = [f"{name}: {what}" for name, what in self.faults.items()]
        more = [f"{len(named) - _NAMED_MAX} more"] if len(named) > _NAMED_MAX else []
        return ", ".join(named[:_NAMED_MAX] + more)


def known_texts(item: Item, answer_format: AnswerFormat) -> list[str]:
    """A right completion, a wrong one and odd ones."""
    right = item["answer"] or item["metadata"].get("example_answer") or "0"
    answers = [right, f"{right}7", *_ODD]
    return answers if answer_format == "plain" else [f"So: <answer>{answer}</answer>" for answer in answers]


def long_texts() -> list[str]:
    """Texts like a large batch of long completions; one dataset is enough."""
    return [f"{_PROSE}<answer>1</answer>"] * _NUM_LONG


def prove(zygote: ZygoteProcess, names: Sequence[str]) -> Proof:
    """Score the known items in a locked-down worker, and compare with the scores of the zygote, which is not locked down.

    Raises:
        LocalError: there was no worker to compare with: the zygote ended, or the machine was too slow.
    """
    try:
        known = zygote.known()
        scored = score_items(zygote, known, time.monotonic() + PROOF_S_MAX)
        expected_RG = zygote.expected()
    except ZygoteDied as error:
        raise LocalError(
            "the scorer's zygote ended while it tested the sandbox", fix="its own messages are in the log"
        ) from error
    proof = Proof(scored.steps)
    for item, scores, expected in zip(known, scored.scores_RG, expected_RG, strict=True):
        for ours, (reward, reason) in zip(scores, expected, strict=True):
            if ours.reason in _NO_WORD:
                raise LocalError(
                    f"the known items were not scored: {ours.reason.name.lower()}",
                    f"a worker had {PROOF_S_MAX:.0f} s for {len(known)} items",
                    "start again when the machine is less busy",
                )
            if ours != Score(reward, Reason(reason)):
                proof.faults.setdefault(names[item.dataset], _difference(ours, Score(reward, Reason(reason))))
    return proof


def _difference(ours: Score, expected: Score) -> str:
    if ours.reason is not expected.reason:
        return ours.reason.name.lower()
    return f"{ours.reward:.3g} instead of {expected.reward:.3g}"
