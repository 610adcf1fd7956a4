"""Two ways through the model for one pack, with one result: `packed_pass`, fast, and `plain_pass`, for any causal model.

Each adds the pack's part of the round's gradient to the masters and returns the log-probs of its trained tokens.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel

from swarmd.config import Config
from swarmd.policy.plans.ladder import Execution
from swarmd.policy.update.attention import layout_of, prompt_sharing
from swarmd.policy.update.head import HeadGradients, head_pass
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.packing import Pack, collate
from swarmd.policy.update.token_losses import TokenLosses, TokenPass


class Trained(NamedTuple):
    """A model in training: its masters, the settings, and how an update is carried out."""

    model: PreTrainedModel
    masters: MasterWeights
    config: Config
    how: Execution


Pass = Callable[[Trained, Pack, bool], TokenPass]


def packed_pass(trained: Trained, pack: Pack, with_gradient: bool) -> TokenPass:
    """The whole pack as one row with shared prompts; the head on predicting positions, its gradient in the forward.

    Raises:
        UnsupportedAttention, or whatever the architecture raises at arguments it does not know. The self-check asks first.
    """
    model, masters, config, how = trained
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise TypeError(f"the head is a {type(head).__name__}, not a linear layer")
    tensors = collate(pack, model.device, torch.promote_types(model.dtype, torch.float32))
    layout = layout_of(tensors.segments, tensors.groups_T, tensors.members_T)
    with prompt_sharing(model), torch.set_grad_enabled(with_gradient):
        row_1TD = model.base_model(
            input_ids=tensors.ids_T[None],
            position_ids=tensors.positions_T[None],
            use_cache=False,
            layout=layout,
        ).last_hidden_state
        hidden_ND = row_1TD[0].index_select(0, tensors.predictors_N)
        losses = TokenLosses(tensors, config.update)
        found = head_pass(
            hidden_ND.detach(),
            head,
            tensors.targets_N,
            slope_of=losses.slope_of if with_gradient else None,
            gradients=HeadGradients(masters.gradient_of(head.weight), masters.gradient_of(head.bias)),
            tile=how.head_tile,
            temperature=config.policy.temperature,
        )
        if found.hidden_grad_ND is not None:
            torch.autograd.backward(hidden_ND, found.hidden_grad_ND)
    return losses.finish(found.logps_N, found.entropies_M, pack.num_tokens)


def plain_pass(trained: Trained, pack: Pack, with_gradient: bool) -> TokenPass:
    """One completion at a time through the model as it is, everything left to autograd: slow, and right for any model."""
    model, config = trained.model, trained.config
    tensors = collate(pack, model.device, torch.promote_types(model.dtype, torch.float32))
    losses = TokenLosses(tensors, config.update)
    logps, entropies, start, num_forwarded = [], [], 0, 0
    for group in pack.groups:
        for weighed in group.completions:
            ids = torch.tensor([[*group.prompt_ids, *weighed.completion.ids]], device=model.device)
            num, num_prompt = len(weighed.completion.ids), len(group.prompt_ids)
            with torch.set_grad_enabled(with_gradient):
                logits = model(input_ids=ids[:, :-1], use_cache=False).logits[0, num_prompt - 1 :]
                all_logps = torch.log_softmax(logits.to(losses.dtype) / config.policy.temperature, -1)
                own_N = all_logps.gather(-1, ids[0, num_prompt:, None]).squeeze(-1)
                if with_gradient:
                    slope = losses.slope_of(own_N.detach(), slice(start, start + num))
                    torch.autograd.backward(own_N, slope)
            logps.append(own_N.detach())
            entropies.append(-(all_logps.detach().exp() * all_logps.detach()).nan_to_num(0.0).sum(-1))
            start, num_forwarded = start + num, num_forwarded + ids.shape[1] - 1
    return losses.finish(torch.cat(logps), torch.cat(entropies), num_forwarded)
