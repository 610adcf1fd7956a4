"""The update's loss and gradient written down from the definition, sharing no code with `swarmd.policy`.

One sequence at a time, or all of them right-padded; the model's own forward, autograd for everything, no clever step.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

LOW, HIGH = 0.2, 0.28


def loss_and_gradients(
    model: PreTrainedModel,
    rollouts: list,
    *,
    aggregation: str = "dapo",
    completion_tokens_max: int | None = None,
    temperature: float = 1.0,
    padded: bool = False,
) -> tuple[float, dict[str, Tensor]]:
    """`rollouts` have `prompt_ids` and `completions` with `ids`, `advantage`, `old_logps_T`."""
    sequences = [
        (rollout.prompt_ids, completion) for rollout in rollouts for completion in rollout.completions
    ]
    per_sequence = (
        _padded(model, sequences, temperature) if padded else _one_by_one(model, sequences, temperature)
    )
    terms = []
    for (_, completion), logps in zip(sequences, per_sequence, strict=True):
        old = (
            logps.detach()
            if completion.old_logps_T is None
            else torch.tensor(completion.old_logps_T, dtype=logps.dtype)
        )
        ratio = (logps - old).exp()
        unclipped, clipped = (
            ratio * completion.advantage,
            ratio.clip(1 - LOW, 1 + HIGH) * completion.advantage,
        )
        terms.append(-torch.minimum(unclipped, clipped))
    if aggregation == "dapo":
        loss = torch.cat(terms).mean()
    elif aggregation == "grpo":
        loss = torch.stack([term.mean() for term in terms]).mean()
    else:
        loss = torch.cat(terms).sum() / len(terms) / completion_tokens_max
    names, parameters = zip(*model.named_parameters(), strict=True)
    return loss.item(), dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def weighted_loss_and_gradients(
    model: PreTrainedModel,
    rollouts: list,
    *,
    external_weighting: str = "as-own",
    external_logp_floor: float = -4.0,
    mismatch: str = "off",
    mismatch_cap: float = 3.0,
    temperature: float = 1.0,
) -> tuple[float, dict[str, Tensor]]:
    """The token mean with weighted external completions and own ones corrected for their engine, case by case."""
    terms = []
    for rollout in rollouts:
        for completion in rollout.completions:
            (logps,) = _one_by_one(model, [(rollout.prompt_ids, completion)], temperature)
            before = logps.detach()
            if completion.old_logps_T is not None:
                before = torch.tensor(completion.old_logps_T, dtype=logps.dtype)
            ratio, advantage = (logps - before).exp(), completion.advantage
            term = -torch.minimum(ratio * advantage, ratio.clip(1 - LOW, 1 + HIGH) * advantage)
            if not rollout.external:
                if completion.engine_logps_T is not None:
                    gap = before - torch.tensor(completion.engine_logps_T, dtype=logps.dtype)
                    if mismatch == "token":
                        term = term * gap.exp().clip(max=mismatch_cap)
                terms.append(term)
                continue
            claimed, mean = completion.claimed_logp, before.mean()
            factor: Tensor | float = 1.0
            if external_weighting == "positive":
                factor = 1.0 if advantage > 0 else 0.0
            elif external_weighting == "tapered" and advantage < 0:
                factor = 1.0 if claimed is None else (mean - claimed).exp().clip(max=1)
                factor = factor if mean.item() >= external_logp_floor else 0.0
            terms.append(term * factor)
    loss = torch.cat(terms).mean()
    names, parameters = zip(*model.named_parameters(), strict=True)
    return loss.item(), dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def mean_log_probs(model: PreTrainedModel, rollout: object) -> list[float]:
    """Of each completion, in nats a token."""
    with torch.no_grad():
        sequences = [(rollout.prompt_ids, completion) for completion in rollout.completions]
        return [logps.mean().item() for logps in _one_by_one(model, sequences, 1.0)]


def off_policy(model: PreTrainedModel, rollouts: list, *, spread: float = 0.3, seed: int = 0) -> list:
    """The rollouts with old log-probs around the model's own, so that ratios fall on both sides of both clips."""
    generator = torch.Generator().manual_seed(seed)

    def moved(prompt: tuple[int, ...], completion: object) -> object:
        with torch.no_grad():
            (logps,) = _one_by_one(model, [(prompt, completion)], 1.0)
        noise = spread * torch.randn(len(logps), generator=generator)
        return replace(completion, old_logps_T=tuple((logps + noise).tolist()))

    return [replace(r, completions=tuple(moved(r.prompt_ids, c) for c in r.completions)) for r in rollouts]


def _one_by_one(model: PreTrainedModel, sequences: list, temperature: float) -> list[Tensor]:
    found = []
    for prompt, completion in sequences:
        logits = model(torch.tensor([[*prompt, *completion.ids]])).logits[0] / temperature
        rows = torch.log_softmax(logits, dim=-1)
        found.append(
            torch.stack([rows[len(prompt) + place - 1, token] for place, token in enumerate(completion.ids)])
        )
    return found


def _padded(model: PreTrainedModel, sequences: list, temperature: float) -> list[Tensor]:
    longest = max(len(prompt) + len(completion.ids) for prompt, completion in sequences)
    ids = torch.zeros(len(sequences), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (prompt, completion) in enumerate(sequences):
        tokens = torch.tensor([*prompt, *completion.ids])
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    rows = torch.log_softmax(model(ids, attention_mask=mask).logits / temperature, dim=-1)
    logps = rows[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    return [
        logps[row, len(prompt) - 1 : len(prompt) - 1 + len(completion.ids)]
        for row, (prompt, completion) in enumerate(sequences)
    ]


def worst_difference(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """Largest relative error of any one parameter's gradient, and of all of them together."""
    assert found.keys() == wanted.keys()
    total = torch.stack([gradient.norm() for gradient in wanted.values()]).norm()
    # A parameter whose whole gradient is rounding (a key's bias cancels in the softmax) is measured against the total.
    floors = {name: max(gradient.norm().item(), 1e-3 * total.item()) for name, gradient in wanted.items()}
    return max((found[name] - wanted[name]).norm().item() / floors[name] for name in wanted)


def guarded_loss_and_gradients(
    model: PreTrainedModel,
    rollouts: list,
    *,
    external_logp_min: float = -math.inf,
    external_token_logp_min: float = -math.inf,
    external_weight_max: float = math.inf,
    external_share_max: float = 1.0,
) -> tuple[float, dict[str, Tensor]]:
    """The token mean over what the floor leaves, a capped external rollout counting as if it had only so many tokens."""
    sums, nums, external = [], [], []
    for rollout in rollouts:
        terms, advantages_dropped = [], [0.0]
        for completion in rollout.completions:
            (logps,) = _one_by_one(model, [(rollout.prompt_ids, completion)], 1.0)
            below = logps.mean().item() < external_logp_min or logps.min().item() < external_token_logp_min
            if rollout.external and below and completion.advantage != 0:
                advantages_dropped.append(completion.advantage)
            else:
                terms.append(-(logps - logps.detach()).exp() * completion.advantage)
        if terms and max(advantages_dropped) <= 0:
            sums.append(torch.cat(terms).sum())
            nums.append(len(torch.cat(terms)))
            external.append(rollout.external)
    own = [num for num, theirs in zip(nums, external, strict=True) if not theirs]
    limit = external_weight_max * sum(own) / len(own)
    counted = [min(num, limit) if theirs else num for num, theirs in zip(nums, external, strict=True)]
    share = 1 - sum(own) / sum(counted)
    if share > external_share_max:
        allowed = sum(own) * external_share_max / (1 - external_share_max)
        scale = allowed / (sum(counted) - sum(own))
        counted = [num * scale if theirs else num for num, theirs in zip(counted, external, strict=True)]
    parts = [total * (count / num) for total, count, num in zip(sums, counted, nums, strict=True)]
    loss = torch.stack(parts).sum() / sum(counted)
    names, parameters = zip(*model.named_parameters(), strict=True)
    return loss.item(), dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
