"""A larger round, for cards that would idle: proposed to the operator from the plan's own sums, never taken. Imports no torch."""

from dataclasses import dataclass, replace
from typing import Self

from swarmd.config import Config
from swarmd.policy.plans.choice import Choice, Priced
from swarmd.policy.plans.needs import Where, Work, needs
from swarmd.policy.plans.shape import ModelShape

# A step of decoding reads all weights, for one sequence or for many. By the data sheets of home cards, computing takes as long as
# reading from 80 to 160 sequences on. An estimate, not measured by us.
SEQUENCES_MAX = 128
# The cache's size is proposed in multiples of so many tokens.
_STEP_TOKENS = 1024


@dataclass(frozen=True)
class LargerRound:
    """What would keep the card busier.

    Attributes:
        num_local, num_external, generate_batch_tokens: the settings.
        times: how many times the rollouts.
        sequences: completions that are under way at once now, and then.
        gain: how many times the tokens a second while the card generates, by the bytes that a step reads.
    """

    num_local: int
    num_external: int
    generate_batch_tokens: int
    times: int
    sequences: tuple[int, int]
    gain: float

    @classmethod
    def of(cls, config: Config, shape: ModelShape, where: Where, choice: Choice) -> Self | None:
        """The largest one that fits under the chosen plan; None where the card is busy, or where nobody knows its room."""
        chosen, now = choice.chosen, Work.of(config)
        known = choice.room.free_bytes is not None
        if chosen is None or not known or where.device == "cpu" or not (where.generates and where.updates):
            return None
        found = None
        times = 2
        while (work := _times(now, config, times)) and _fits(choice, chosen, shape, work, where):
            found, times = (times, work), 2 * times
        if found is None:
            return None
        times, work = found
        before, after = _under_way(now, config), _under_way(work, config, times)
        bytes_read = [_step_bytes(shape, now, num, where) for num in (before, after)]
        experience = config.experience
        return cls(
            times * experience.num_local,
            times * experience.num_external,
            work.generate_batch_tokens,
            times,
            (before, after),
            after / before * bytes_read[0] / bytes_read[1],
        )

    @property
    def line(self) -> str:
        """What the operator is told."""
        now, then = self.sequences
        return (
            f"! rounds     the card has room for larger ones: {then} answers under way at once instead of {now}, by estimate"
            f" {self.gain:.1f} times the tokens a second while it generates, {self.times} times the rollouts in an update:"
            f" --mix {self.num_local}/{self.num_external} --set policy.generate_batch_tokens={self.generate_batch_tokens}"
        )


def _own(config: Config, times: int = 1) -> int:
    return times * config.experience.num_local * config.experience.completions


def _times(now: Work, config: Config, times: int) -> Work | None:
    """The work of a round so many times as large, its own answers all under way at once; None beyond `SEQUENCES_MAX`."""
    own = _own(config, times)
    if own > SEQUENCES_MAX:
        return None
    tokens = own * (now.prompt_tokens + now.tokens_max)
    return replace(
        now,
        num_rollouts=times * now.num_rollouts,
        generated_at_once=max(now.generated_at_once, own),
        generate_batch_tokens=max(now.generate_batch_tokens, -(-tokens // _STEP_TOKENS) * _STEP_TOKENS),
    )


def _fits(choice: Choice, chosen: Priced, shape: ModelShape, work: Work, where: Where) -> bool:
    return Priced(chosen.plan, needs(shape, work, chosen.plan.how, where)).fits(choice.room, choice.host)


def _under_way(work: Work, config: Config, times: int = 1) -> int:
    """Completions of full length that generation holds at once."""
    return max(
        1, min(_own(config, times), work.generate_batch_tokens // (work.prompt_tokens + work.tokens_max))
    )


def _step_bytes(shape: ModelShape, work: Work, num: int, where: Where) -> int:
    """Bytes that a step of decoding reads: the weights, and so many completions' keys and values, half of them there."""
    tokens = work.prompt_tokens + work.tokens_max // 2
    return where.element_bytes * shape.num_parameters + num * tokens * shape.kv_bytes_per_token(
        where.element_bytes
    )
