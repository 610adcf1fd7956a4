"""Per-token weights: every aggregation is a weight computed once for the whole round, before anything is dropped or packed.

The round's loss is `sum over tokens of weight x token loss`, so it cannot depend on packing or micro-batches.
"""

from collections.abc import Sequence

from swarmd.config import Config, UpdateSection
from swarmd.policy.update.packing import PromptGroup, TokenCompletion, TokenRollout, WeighedCompletion


def token_weights(num_tokens_C: Sequence[int], counted_C: Sequence[bool], config: Config) -> list[float]:
    """Weight of one token of each of C completions.

    - dapo: 1 / tokens of the round (arXiv 2503.14476), each token counts alike.
    - grpo: 1 / (own tokens x C), each completion counts alike.
    - dr_grpo: 1 / (C x policy.tokens_max), no length in any denominator (arXiv 2503.20783).

    A completion that is not counted (masked) weighs 0; it leaves the token count of dapo but not C, as in TRL.
    """
    num_completions = len(num_tokens_C)
    tokens_counted = sum(num for num, counted in zip(num_tokens_C, counted_C, strict=True) if counted)
    weights = []
    for num, counted in zip(num_tokens_C, counted_C, strict=True):
        if not counted or num == 0:
            weights.append(0.0)
        elif config.update.aggregation == "dapo":
            weights.append(1 / tokens_counted)
        elif config.update.aggregation == "grpo":
            weights.append(1 / (num * num_completions))
        else:
            weights.append(1 / (num_completions * config.policy.tokens_max))
    return weights


def weigh(rollouts: Sequence[TokenRollout], config: Config) -> list[PromptGroup]:
    """Weigh a round's completions, then keep only those that carry gradient.

    With no KL and no entropy term a completion of zero advantage (or zero weight) has an exactly zero gradient: it stays
    in the normalisers and is never forwarded. A completion's own weight (`TokenCompletion.weight`) is in no normaliser.
    """
    weights = iter(enumerate(normaliser_weights(rollouts, config)))
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


def normaliser_weights(rollouts: Sequence[TokenRollout], config: Config) -> list[float]:
    """One token's weight of each of the round's completions, in order, without what stands in front of a completion."""
    completions = [completion for rollout in rollouts for completion in rollout.completions]
    counted_C = [is_counted(completion, config.update) for completion in completions]
    return token_weights([len(completion.ids) for completion in completions], counted_C, config)


def is_counted(completion: TokenCompletion, update: UpdateSection) -> bool:
    """Whether a completion is in the loss: one that was cut at the length limit may be masked."""
    return completion.finished or not update.mask_unfinished
