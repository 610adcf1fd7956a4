"""The reward of one completion for one regenerated item: caps first, then our own or the upstream rule, then a finite [0, 1].

Nothing here evaluates text. The module also guards against upstream rules that raise, return NaN, or leave [0, 1]. A value far
above 1 counts 0 and not 1. Upstream's rule breaks down in places (calendar_arithmetic with a negative oracle pays exp(+5 x
error)), where clamping would give every wrong answer full marks.
"""

import decimal
import enum
import math
from dataclasses import dataclass

from swarmd.questions.extract import AnswerFormat, answer_chars_max, extract_answer, fits
from swarmd.questions.family import Item, Rule
from swarmd.questions.own_scorers import Refused
from swarmd.questions.regenerate import QuestionSource

# Sums of 1/n (spell_backward) miss 1 by a rounding error.
_ROUNDING = 1e-9


class Reason(enum.IntEnum):
    """The reason for a completion's reward; the names are a closed set of metric labels."""

    SCORED = 0
    NO_ANSWER = 1
    OVERSIZE = 2
    ANSWER_TOO_LONG = 3
    REFUSED = 4
    SCORER_ERROR = 5
    OUT_OF_RANGE = 6
    NOT_REGENERATED = 7
    DEADLINE = 8
    WORKER_DIED = 9
    FORBIDDEN_SYSCALL = 10
    CPU_LIMIT = 11
    FORGED_REPLY = 12
    ZYGOTE_DIED = 13


@dataclass(frozen=True)
class Score:
    """A reward in [0, 1] and its reason; any reason but SCORED comes with 0."""

    reward: float
    reason: Reason = Reason.SCORED


def score(completion: str, item: Item, source: QuestionSource, answer_format: AnswerFormat) -> Score:
    """Score one completion; never raises on account of its text."""
    if not fits(completion):
        return Score(0.0, Reason.OVERSIZE)
    answer = extract_answer(completion, answer_format)
    if answer is None:
        return Score(0.0, Reason.NO_ANSWER)
    if len(answer) > answer_chars_max(item["answer"], source.offer.chars_max):
        return Score(0.0, Reason.ANSWER_TOO_LONG)
    try:
        with decimal.localcontext(decimal.Context()):
            value = float(_rule(source)(answer, item))
    except Refused:
        return Score(0.0, Reason.REFUSED)
    except Exception:  # noqa: BLE001 - upstream rules raise OverflowError, RecursionError and what else on hostile text
        return Score(0.0, Reason.SCORER_ERROR)
    graded = _grade(value, source.reward)
    empty = not answer and graded == Score(0.0)  # a right answer may be empty
    return Score(0.0, Reason.NO_ANSWER) if empty else graded


def _rule(source: QuestionSource) -> Rule:
    return source.exact_rule.score if source.exact_rule else source.offer.own or source.dataset.score_answer


def _grade(value: float, rule: str) -> Score:
    if not math.isfinite(value) or not 0.0 <= value <= 1.0 + _ROUNDING:
        return Score(0.0, Reason.OUT_OF_RANGE)
    if rule == "exact":
        return Score(float(value == 1.0))
    return Score(min(value, 1.0))
