"""What an engine sampled, as the daemon hears of it."""

from collections.abc import Sequence

from swarmd.clients.policy import OwnCompletion
from swarmd.policy.generation.engine import Sampled
from swarmd.policy.model.tokenise import Tokeniser


def answers_of(tokeniser: Tokeniser, sampled_RG: Sequence[Sequence[Sampled]]) -> list[list[OwnCompletion]]:
    """The completions with their texts, in the same order."""
    return [
        [
            OwnCompletion(
                text=tokeniser.text(sampled.ids),
                finished=sampled.finished,
                token_ids=tuple(sampled.ids),
                logprob_sum=sampled.logprob_sum,
                token_logps=tuple(sampled.logps),
            )
            for sampled in sampled_G
        ]
        for sampled_G in sampled_RG
    ]
