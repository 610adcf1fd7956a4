"""Per-token weights: every aggregation is a weight computed once for the whole round, before anything is dropped or packed.

The round's loss is `sum over tokens of weight x token loss`, so it cannot depend on packing or micro-batches.
"""

from collections.abc import Sequence

from swarmd.config import Config
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

    With `normaliser` "source" own and external completions have one normaliser each, and the two losses are added in proportion
    to their numbers of rollouts. Externals that are imitated are never in the normaliser of the policy gradient.
    """
    weights = iter(enumerate(normaliser_weights(rollouts, config)))
    groups = []
    for rollout in rollouts:
        imitated = rollout.external and config.update.external_weighting == "imitate"
        kept = []
        for completion in rollout.completions:
            index, weight = next(weights)
            weight *= completion.weight
            if weight != 0 and (imitated or completion.advantage != 0):
                kept.append(WeighedCompletion(index, completion, weight, rollout.external))
        if kept:
            groups.append(PromptGroup(rollout.prompt_ids, tuple(kept)))
    return groups


def normaliser_weights(rollouts: Sequence[TokenRollout], config: Config) -> list[float]:
    """One token's weight of each of the round's completions, in order, without what stands in front of a completion."""
    completions = [(c, rollout.external) for rollout in rollouts for c in rollout.completions]
    own = [number for number, (_, external) in enumerate(completions) if not external]
    theirs = [number for number, (_, external) in enumerate(completions) if external]
    weights_C = [0.0] * len(completions)
    if config.update.external_weighting == "imitate":
        parts = [(own, 1.0)]
        _add_imitation(weights_C, [(number, completions[number][0]) for number in theirs], config)
    elif config.update.normaliser == "source":
        share = sum(rollout.external for rollout in rollouts) / max(1, len(rollouts))
        parts = [(own, 1 - share), (theirs, share)]
    else:
        parts = [([*own, *theirs], 1.0)]
    for numbers, share in parts:
        chosen = [completions[number][0] for number in numbers]
        counted = [_is_counted(c, config) for c in chosen]
        of_part = token_weights([len(c.ids) for c in chosen], counted, config)
        for number, weight in zip(numbers, of_part, strict=True):
            weights_C[number] = share * weight
    return weights_C


def _add_imitation(
    weights_C: list[float], numbered: Sequence[tuple[int, TokenCompletion]], config: Config
) -> None:
    """The best external completions share `imitate_coefficient`, each token alike; they are in no other normaliser."""
    best = [(number, c) for number, c in numbered if c.best and _is_counted(c, config)]
    num_tokens = sum(len(c.ids) for _, c in best)
    for number, c in best:
        weights_C[number] = config.update.imitate_coefficient / num_tokens if c.ids else 0.0


def _is_counted(completion: TokenCompletion, config: Config) -> bool:
    return completion.finished or not config.update.mask_unfinished
