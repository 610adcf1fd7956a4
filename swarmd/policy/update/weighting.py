"""Per-token weights: every aggregation is a weight computed once for the whole round, before anything is dropped or packed.

The round's loss is `sum over tokens of weight x token loss`, so it cannot depend on packing or micro-batches.
"""

from collections.abc import Sequence

from swarmd.policy.update.packing import PromptGroup, TokenRollout, WeighedCompletion
from swarmd.policy.update.settings import UpdateSettings


def token_weights(
    num_tokens_C: Sequence[int], counted_C: Sequence[bool], settings: UpdateSettings
) -> list[float]:
    """Weight of one token of each of C completions.

    - dapo: 1 / tokens of the round (arXiv 2503.14476), each token counts alike.
    - grpo: 1 / (own tokens x C), each completion counts alike.
    - dr_grpo: 1 / (C x completion_tokens_max), no length in any denominator (arXiv 2503.20783).

    A completion that is not counted (masked) weighs 0; it leaves the token count of dapo but not C, as in TRL.
    """
    num_completions = len(num_tokens_C)
    tokens_counted = sum(num for num, counted in zip(num_tokens_C, counted_C, strict=True) if counted)
    weights = []
    for num, counted in zip(num_tokens_C, counted_C, strict=True):
        if not counted or num == 0:
            weights.append(0.0)
        elif settings.aggregation == "dapo":
            weights.append(1 / tokens_counted)
        elif settings.aggregation == "grpo":
            weights.append(1 / (num * num_completions))
        else:
            assert settings.completion_tokens_max is not None  # UpdateSettings holds this
            weights.append(1 / (num_completions * settings.completion_tokens_max))
    return weights


def weigh(rollouts: Sequence[TokenRollout], settings: UpdateSettings) -> list[PromptGroup]:
    """Weigh a round's completions, then keep only those that carry gradient.

    With no KL and no entropy term a completion of zero advantage (or zero weight) has an exactly zero gradient: it stays
    in the normalisers and is never forwarded.
    """
    completions = [completion for rollout in rollouts for completion in rollout.completions]
    counted = [completion.finished or not settings.mask_unfinished for completion in completions]
    weights = iter(enumerate(token_weights([len(c.ids) for c in completions], counted, settings)))
    groups = []
    for rollout in rollouts:
        kept = []
        for completion in rollout.completions:
            index, weight = next(weights)
            weight *= completion.weight
            if weight != 0 and completion.advantage != 0:
                kept.append(WeighedCompletion(index, completion, weight, rollout.external))
        if kept:
            groups.append(PromptGroup(rollout.prompt_ids, tuple(kept)))
    return groups
