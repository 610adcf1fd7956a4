"""A round's scored rollouts as tokens with advantages: the last step that knows whose text it was."""

import math
from collections.abc import Sequence

from swarmd.config import Config
from swarmd.experience.advantages import advantages
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.policy.model.tokenise import Tokeniser
from swarmd.policy.update.external import claimed_logp
from swarmd.policy.update.packing import TokenCompletion, TokenRollout

_Tokens = tuple[TokenCompletion, bool]  # a completion, and whether it had to be cut


def token_rollouts(
    rollouts: Sequence[ScoredRollout], tokeniser: Tokeniser, config: Config, context_tokens_max: int
) -> list[TokenRollout]:
    """One token rollout for each scored one, in order.

    Own completions keep the ids they were sampled as. Other people's text is tokenised here, with this model's end token where
    its author finished, and cut at `policy.tokens_max`. Advantages come first, from all rewards, and then what does not fit
    the context is left out: a question too long for this model loses all its completions.

    An external rollout loses all its completions, too, when one that would be favoured has to be cut: its reward was for an answer
    that comes after the cut, and what comes before it may be anything.
    """
    result = []
    for rollout in rollouts:
        prompt_ids = tokeniser.prompt_ids(rollout.prompt)
        room = context_tokens_max - len(prompt_ids)
        values_G = advantages(rollout.rewards_G, scale=config.update.advantage_scale)
        tokens_of = _external_tokens if rollout.external else _own_tokens
        made = [
            tokens_of(completion, value, tokeniser, min(config.policy.tokens_max, room))
            for completion, value in zip(rollout.completions, values_G, strict=True)
            if room > 0
        ]
        fitting = tuple(completion for completion, _ in made if 0 < len(completion.ids) <= room)
        if rollout.external and any(cut and completion.advantage > 0 for completion, cut in made):
            fitting = ()
        result.append(TokenRollout(tuple(prompt_ids), fitting, rollout.external))
    return result


def _own_tokens(
    completion: ScoredCompletion, advantage: float, tokeniser: Tokeniser, tokens_max: int
) -> _Tokens:
    if completion.token_ids is None:
        return _external_tokens(completion, advantage, tokeniser, tokens_max)
    ids, logps = completion.token_ids, completion.token_logps
    # An engine that fell apart measures NaN, and half a measurement is none.
    usable = logps is not None and len(logps) == len(ids) and all(map(math.isfinite, logps))
    finished = _has_finished(completion, ids, tokeniser)
    return TokenCompletion(ids, advantage, finished=finished, engine_logps_T=logps if usable else None), False


def _external_tokens(
    completion: ScoredCompletion, advantage: float, tokeniser: Tokeniser, tokens_max: int
) -> _Tokens:
    ids = tokeniser.completion_ids(completion.text, finished=completion.finished, tokens_max=tokens_max + 1)
    kept = tuple(ids[:tokens_max])
    cut = len(ids) > tokens_max
    claimed = claimed_logp(
        completion.logprob_sum, completion.num_tokens, num_own_tokens=len(kept), whole=not cut
    )
    finished = _has_finished(completion, kept, tokeniser)
    return TokenCompletion(kept, advantage, finished=finished, claimed_logp=claimed), cut


def _has_finished(completion: ScoredCompletion, ids: tuple[int, ...], tokeniser: Tokeniser) -> bool:
    """Whether a completion ended by itself. One that we had to cut has not, whatever its author says."""
    return completion.finished and bool(ids) and ids[-1] in tokeniser.eos_ids
