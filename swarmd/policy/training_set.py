"""A round's scored rollouts as tokens with advantages: the last step that knows whose text it was."""

from collections.abc import Sequence

from swarmd.experience.advantages import advantages
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.policy.model.tokenise import Tokeniser
from swarmd.policy.options import PolicyOptions
from swarmd.policy.update.packing import TokenCompletion, TokenRollout


def token_rollouts(
    rollouts: Sequence[ScoredRollout], tokeniser: Tokeniser, options: PolicyOptions, context_tokens_max: int
) -> list[TokenRollout]:
    """One token rollout for each scored one, in order.

    Own completions keep the ids they were sampled as. Other people's text is tokenised here, with this model's end token where
    its author finished, and cut at `options.tokens_max`. Advantages come first, from all rewards, and then what does not fit
    the context is left out: a question too long for this model loses all its completions.
    """
    result = []
    for rollout in rollouts:
        prompt_ids = tokeniser.prompt_ids(rollout.prompt)
        room = context_tokens_max - len(prompt_ids)
        values_G = advantages(rollout.rewards_G, scale=options.advantage_scale, eps=options.advantage_eps)
        completions = [
            _tokens(completion, value, tokeniser, min(options.tokens_max, room))
            for completion, value in zip(rollout.completions, values_G, strict=True)
            if room > 0
        ]
        fitting = tuple(c for c in completions if c.ids and len(c.ids) <= room)
        result.append(TokenRollout(tuple(prompt_ids), fitting, rollout.external))
    return result


def _tokens(
    completion: ScoredCompletion, advantage: float, tokeniser: Tokeniser, tokens_max: int
) -> TokenCompletion:
    ids = completion.token_ids
    if ids is None:
        ids = tuple(
            tokeniser.completion_ids(completion.text, finished=completion.finished, tokens_max=tokens_max)
        )
    # What we had to cut has not ended by itself, whatever its author says.
    finished = completion.finished and bool(ids) and ids[-1] in tokeniser.eos_ids
    return TokenCompletion(ids, advantage, finished=finished)
