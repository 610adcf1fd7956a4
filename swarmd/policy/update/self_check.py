"""The fast path checks itself against the plain one, once, on the user's own model and device: `check_packed_pass`.

Two narrow passes differ by rounding alone, and by how much depends on the weights: large key biases make it a fifth of a gradient.
So each layer is computed by itself, in float32 too: there a wrong pass stands out, whatever the weights. In the model's own
precision neither pass may lie much farther from the float32 gradient than the other.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import torch
from torch import Tensor

from swarmd.policy.fast_paths import REFUSALS, TOLERANCE
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.update.attention import DENSE_TOKENS_MAX, row_length_max
from swarmd.policy.update.masters import MasterWeights
from swarmd.policy.update.one_layer import layers_of, one_layer
from swarmd.policy.update.packing import Pack, PromptGroup, TokenCompletion, WeighedCompletion
from swarmd.policy.update.passes import Pass, Trained, packed_pass, plain_pass

# Two groups of at most 24 + 2 x 23 tokens share a call with a dense mask.
PROMPT_TOKENS_MAX, COMPLETION_TOKENS_MIN, COMPLETION_TOKENS_MAX = 24, 8, 24
GRADIENT_ELEMENTS_MAX = 2**23  # the smallest parameters first: a layer's norms and biases are among them
HEAD_TILE = 13  # positions: the sample's 48 to 144 make several tiles, the last of them smaller
# The packed pass may be so many times as far from the float32 gradient as the plain one. On a CPU the two are as far, within 5 %
# (bfloat16, key biases of standard deviation 0 to 100).
ROUNDING_MAX = 2.0


@dataclass(frozen=True)
class SelfCheck:
    """`passed`, and in words either the largest relative difference or the reason for the plain path."""

    passed: bool
    detail: str


def check_packed_pass(trained: Trained, groups: Sequence[PromptGroup]) -> SelfCheck:
    """Compare log-probs and gradients of both passes on the first tokens of a few of the round's own completions.

    Leaves no gradient behind. Running out of memory is not a verdict on the architecture and is raised.
    """
    if row_length_max(trained.model) == 0:
        return SelfCheck(
            False, "the model's layers or rotary embeddings depend on more than each sequence's own tokens"
        )
    sample, tokens = _renumbered(_sample(groups))
    tokens_V = torch.tensor(tokens, device=trained.model.device)
    try:
        differences = [
            _differences(trained, number, sample, tokens_V) for number in range(len(layers_of(trained.model)))
        ]
    except REFUSALS as refusal:
        if is_out_of_memory(refusal):
            raise
        return SelfCheck(
            False, f"the model refuses a packed row: {type(refusal).__name__}: {str(refusal)[:200]}"
        )
    return _verdict(torch.stack(differences).T.tolist(), trained.model.dtype)


def _verdict(differences: Sequence[Sequence[float]], dtype: torch.dtype) -> SelfCheck:
    """From what `_differences` found of each layer."""
    worst, packed, plain = (max(of_layers, key=_nan_last) for of_layers in differences)
    limit = TOLERANCE[torch.promote_types(dtype, torch.float32)]
    found = f"relative difference {worst:.1e}, limit {limit:.0e}"
    if not worst <= limit or torch.promote_types(dtype, torch.float32) == dtype:
        return SelfCheck(worst <= limit, found)
    most = max(ROUNDING_MAX * plain, TOLERANCE[dtype])
    return SelfCheck(packed <= most, f"{found}; with the model's rounding {packed:.1e}, limit {most:.1e}")


def _nan_last(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _differences(trained: Trained, number: int, sample: Pack, tokens_V: Tensor) -> Tensor:
    """Of one layer: the worst relative difference between the passes in float32, and how far the packed and the plain pass in the
    model's own precision lie from float32 (root of the mean square over the parameters)."""
    narrow = trained.model.dtype
    wide = torch.promote_types(narrow, torch.float32)

    def measured(run: Pass, dtype: torch.dtype) -> dict[str, Tensor]:
        return _measure(run, trained, one_layer(trained.model, number, tokens_V, dtype), sample)

    wanted = measured(plain_pass, wide)
    worst = _relative(measured(packed_pass, wide), wanted).max()
    if wide == narrow:
        return torch.stack([worst, worst, worst])
    rounded = [
        _relative(measured(run, narrow), wanted).square().mean().sqrt() for run in (packed_pass, plain_pass)
    ]
    return torch.stack([worst, *rounded])


def _measure(run: Pass, trained: Trained, cut: torch.nn.Module, sample: Pack) -> dict[str, Tensor]:
    masters = MasterWeights(cut)
    how = trained.how._replace(head_tile=HEAD_TILE)
    found = run(trained._replace(model=cut, masters=masters, how=how), sample, True)
    gradients = masters.gradients()
    measured = {"log-probs": found.logps_N.exp()}
    room = GRADIENT_ELEMENTS_MAX
    for name, gradient in sorted(gradients.items(), key=lambda item: item[1].numel()):
        room -= gradient.numel()
        if room < 0:
            break
        measured[name] = gradient
    masters.close()
    return measured


def _relative(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> Tensor:
    """The relative difference of each tensor; infinity where there is another set of them."""
    if found.keys() != wanted.keys():
        return torch.full((1,), math.inf, device=wanted["log-probs"].device)
    apart = torch.stack([(found[name] - wanted[name]).norm() for name in wanted])
    scale = torch.stack([value.norm() for value in wanted.values()])
    return torch.where(scale > 0, apart / scale, (apart > 0).to(apart.dtype))


def _sample(groups: Sequence[PromptGroup]) -> Pack:
    """Three small groups of two completions each, so that a leak between any two, or a wrong position, would show.

    Made of the round's own tokens, repeated where they are too few: a round of one-word answers must not pass by default. Nor must
    one that is only measured: advantages and weights are the check's own, so that there is a gradient to compare.
    Two groups share a call; the third's prompt is long enough for a call a completion. So both layouts of `layout_of` are compared.
    """
    longest = sorted(groups, key=lambda group: -max(c.num_forwarded for c in group.completions))
    first, last = longest[0], longest[-1]
    pack = Pack()
    for group, prompt in (
        (first, first.prompt_ids[-PROMPT_TOKENS_MAX:]),
        (last, last.prompt_ids[-PROMPT_TOKENS_MAX:]),
        (last, _cycled(last.prompt_ids, DENSE_TOKENS_MAX)),
    ):
        kept: list[WeighedCompletion] = []
        for weighed, advantage in ((group.completions[0], 1.0), (group.completions[-1], -0.5)):
            num = min(max(len(weighed.completion.ids), COMPLETION_TOKENS_MIN), COMPLETION_TOKENS_MAX)
            ids = _cycled(weighed.completion.ids, num)
            kept.append(WeighedCompletion(len(kept), TokenCompletion(ids, advantage), 1.0, weighed.external))
        pack.add(PromptGroup(prompt, tuple(kept)))
    return pack


def _cycled(ids: tuple[int, ...], num: int) -> tuple[int, ...]:
    return tuple(islice(cycle(ids), num))


def _renumbered(pack: Pack) -> tuple[Pack, list[int]]:
    """The pack with tokens numbered by their place among those that it has, which come second."""
    tokens = sorted({token for group in pack.groups for token in _tokens(group)})
    places = {token: place for place, token in enumerate(tokens)}

    def of(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(places[token] for token in ids)

    renumbered = Pack()
    for group in pack.groups:
        completions = (
            replace(c, completion=replace(c.completion, ids=of(c.completion.ids))) for c in group.completions
        )
        renumbered.add(PromptGroup(of(group.prompt_ids), tuple(completions)))
    return renumbered, tokens


def _tokens(group: PromptGroup) -> Iterator[int]:
    yield from group.prompt_ids
    for weighed in group.completions:
        yield from weighed.completion.ids
