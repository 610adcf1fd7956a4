"""Proof: how much a scored rollout of an author counts towards being proven, measured by this node's own rollouts. Pure.

Two shares are multiplied. The first is how much text a rollout has, compared with an own rollout. The second says whether its
rewards tell answers apart. Text without an answer counts less, the more own completions have an answer. Empty texts prove nothing.

Both shares have a floor, so that honest authors of every kind become proven: people with two short answers, models that write
less, models whose answers are all right or all wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

# Own rollouts over which the means move. Over 32 of them, one long answer would move the measure by a tenth.
WINDOW = 64
# A rollout with little text proves at least an eighth: 256 such rollouts prove an author as 32 own ones would.
TEXT_MIN = 1 / 8
# A rollout whose answers are all right or all wrong proves at least a quarter: 128 prove an author who always earns the same.
SIGNAL_MIN = 1 / 4


class Text(NamedTuple):
    """One rollout's text: characters of completions with an answer and without, and the share of completions with an answer."""

    num_answered_chars: float = 0.0
    num_other_chars: float = 0.0
    answered: float = 0.0

    @classmethod
    def of(cls, texts: Sequence[str], reasons: Sequence[str]) -> Self:
        """`reasons` are the scorer's for each text, empty where an answer was found and scored."""
        answered = [len(text) for text, reason in zip(texts, reasons, strict=True) if not reason]
        num_other = sum(map(len, texts)) - sum(answered)
        return cls(sum(answered), num_other, len(answered) / max(1, len(texts)))


@dataclass
class OwnWork:
    """Moving means over this node's own rollouts; begins anew with the process."""

    num: int = 0
    text: Text = field(default_factory=Text)
    informative: float = 0.0

    def observe(self, text: Text, *, informative: bool) -> None:
        """Count an own rollout, and whether its rewards differ."""
        self.num += 1
        share = 1 / min(self.num, WINDOW)
        self.text = Text(*(old + share * (new - old) for old, new in zip(self.text, text, strict=True)))
        self.informative += share * (informative - self.informative)

    def worth(self, text: Text, *, informative: bool) -> float:
        """The proof of another author's rollout, from 0 to 1.

        A rollout without signal proves more where many own rollouts have none either.
        """
        theirs, own = self._weight(text), self._weight(self.text)
        if theirs == 0:
            return 0.0
        share = min(1.0, max(TEXT_MIN, theirs / own)) if own else TEXT_MIN
        return share if informative else share * max(SIGNAL_MIN, 1 - self.informative)

    def _weight(self, text: Text) -> float:
        return text.num_answered_chars + (1 - self.text.answered) * text.num_other_chars
