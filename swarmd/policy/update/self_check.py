"""The fast path checks itself against the plain one, once, on the user's own model and device: `check_packed_pass`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import torch
from torch import Tensor

from swarmd.policy.fast_paths import REFUSALS, TOLERANCE
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.update.attention import DENSE_TOKENS_MAX, row_length_max
from swarmd.policy.update.packing import Pack, PromptGroup, TokenCompletion, WeighedCompletion
from swarmd.policy.update.passes import Pass, Trained, packed_pass, plain_pass

PROMPT_TOKENS_MAX, COMPLETION_TOKENS_MIN, COMPLETION_TOKENS_MAX = 48, 8, 24
GRADIENT_ELEMENTS_MAX = 2**23  # the smallest parameters first: norms and biases of every layer are among them


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
    sample = _sample(groups)
    try:
        packed = _measure(packed_pass, trained, sample)
    except REFUSALS as refusal:
        if is_out_of_memory(refusal):
            raise
        return SelfCheck(
            False, f"the model refuses a packed row: {type(refusal).__name__}: {str(refusal)[:200]}"
        )
    finally:
        trained.masters.clear_gradients()
    plain = _measure(plain_pass, trained, sample)
    trained.masters.clear_gradients()
    worst = (
        max(_difference(packed[name], plain[name]) for name in plain)
        if packed.keys() == plain.keys()
        else float("inf")
    )
    tolerance = TOLERANCE[trained.model.dtype]
    return SelfCheck(worst <= tolerance, f"relative difference {worst:.1e}, limit {tolerance:.0e}")


def _sample(groups: Sequence[PromptGroup]) -> Pack:
    """Two small groups of two completions each, so that a leak between either, or a wrong position, would show.

    Made of the round's own tokens, repeated where they are too few: a round of one-word answers must not pass by default. Nor must
    one that is only measured: advantages and weights are the check's own, so that there is a gradient to compare.
    The second group's prompt is long enough for a call a completion, so both layouts of `layout_of` are compared.
    """
    longest = sorted(groups, key=lambda group: -max(c.num_forwarded for c in group.completions))
    first, second = longest[0], longest[-1]
    pack = Pack()
    for group, prompt in (
        (first, first.prompt_ids[-PROMPT_TOKENS_MAX:]),
        (second, _cycled(second.prompt_ids, DENSE_TOKENS_MAX)),
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


def _measure(run: Pass, trained: Trained, pack: Pack) -> dict[str, Tensor]:
    trained.masters.clear_gradients()
    found = run(trained, pack, True)
    gradients = trained.masters.gradients()
    norms = torch.stack([gradient.norm() for gradient in gradients.values()])
    measured = {"log-probs": found.logps_N.exp(), "gradient norm": norms.norm()}
    room = GRADIENT_ELEMENTS_MAX
    for name, gradient in sorted(gradients.items(), key=lambda item: item[1].numel()):
        room -= gradient.numel()
        if room < 0:
            break
        measured[name] = gradient.clone()
    return measured


def _difference(one: Tensor, other: Tensor) -> float:
    scale = other.norm().item()
    return (one - other).norm().item() / scale if scale > 0 else float(one.norm().item() > 0)
