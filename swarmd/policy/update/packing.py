"""Rollouts as token ids, and how they are laid into micro-batches: every prompt once, no padding, first fit.

A pack is one row `[prompt | completion | completion | ... | prompt | completion ...]`. A completion's last token predicts
nothing that is trained, so it is not forwarded. Nothing here changes a loss: weights are fixed before packing.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat

import torch
from torch import Tensor

from swarmd.policy.upload import upload


@dataclass(frozen=True)
class TokenCompletion:
    """One completion in the own tokenizer's ids.

    Attributes:
        ids: T token ids; they end with EOS when the completion finished by itself.
        advantage: of this completion within its rollout.
        old_logps_T: log-probs under the policy the ratio refers to; None means "the current policy", ratio exactly 1.
        finished: False when it was cut at the token limit (only `mask_unfinished` asks).
        weight: factor in front of this completion's loss, outside of every normaliser (1 = "as if it were our own").
        engine_logps_T: of an own completion, what the engine measured while it sampled; see `mismatch`.
        claimed_logp: of an external one, what its sender claims, in nats a token of ours; see `external.claimed_logp`.
    Raises:
        ValueError: old_logps_T or engine_logps_T and ids differ in length.
    """

    ids: tuple[int, ...]
    advantage: float
    old_logps_T: tuple[float, ...] | None = None
    finished: bool = True
    weight: float = 1.0
    engine_logps_T: tuple[float, ...] | None = None
    claimed_logp: float | None = None

    def __post_init__(self) -> None:
        for whose, logps_T in (("old", self.old_logps_T), ("engine", self.engine_logps_T)):
            if logps_T is not None and len(logps_T) != len(self.ids):
                raise ValueError(f"{len(logps_T)} {whose} log-probs for {len(self.ids)} tokens")


@dataclass(frozen=True)
class TokenRollout:
    """One question's prompt with all its completions.

    Raises:
        ValueError: the prompt is empty; then nothing would predict a completion's first token.
    """

    prompt_ids: tuple[int, ...]
    completions: tuple[TokenCompletion, ...]
    external: bool = False

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError("a rollout's prompt has no tokens")


@dataclass(frozen=True)
class WeighedCompletion:
    """A completion that will be forwarded, with the weight each of its tokens has in the round's loss."""

    index: int  # position among all completions of the round
    completion: TokenCompletion
    token_weight: float
    external: bool

    @property
    def num_forwarded(self) -> int:
        return len(self.completion.ids) - 1


@dataclass(frozen=True)
class PromptGroup:
    """Completions that share one copy of their prompt: a rollout, or a part of one that was too large."""

    prompt_ids: tuple[int, ...]
    completions: tuple[WeighedCompletion, ...]

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids) + sum(c.num_forwarded for c in self.completions)


@dataclass
class Pack:
    """One micro-batch."""

    groups: list[PromptGroup] = field(default_factory=list)
    num_tokens: int = 0

    def add(self, group: PromptGroup) -> None:
        self.groups.append(group)
        self.num_tokens += group.num_tokens

    def completions(self) -> Iterator[WeighedCompletion]:
        """In the order in which their targets lie in `PackTensors`."""
        for group in self.groups:
            yield from group.completions


def first_fit(groups: Sequence[PromptGroup], tokens_max: int) -> list[Pack]:
    """Lay groups into packs of at most `tokens_max` forwarded tokens, longest first.

    A group over the budget is split and its prompt repeated. One completion that is over it with its prompt gets a pack
    of its own: it cannot be split without changing what it attends to.
    """
    packs: list[Pack] = []
    parts = [part for group in groups for part in _split(group, tokens_max)]
    for part in sorted(parts, key=lambda part: -part.num_tokens):  # stable: equal lengths keep their order
        target = next((pack for pack in packs if pack.num_tokens + part.num_tokens <= tokens_max), None)
        if target is None:
            packs.append(target := Pack())
        target.add(part)
    return packs


def _split(group: PromptGroup, tokens_max: int) -> Iterator[PromptGroup]:
    taken: list[WeighedCompletion] = []
    size = len(group.prompt_ids)
    for completion in group.completions:
        if taken and size + completion.num_forwarded > tokens_max:
            yield PromptGroup(group.prompt_ids, tuple(taken))
            taken, size = [], len(group.prompt_ids)
        taken.append(completion)
        size += completion.num_forwarded
    if taken:
        yield PromptGroup(group.prompt_ids, tuple(taken))


@dataclass(frozen=True)
class Segment:
    """Where one group lies in a pack's row: its prompt, then its completions (some may be empty)."""

    prompt: slice
    completions: tuple[slice, ...]

    @property
    def stop(self) -> int:
        stop: int = self.completions[-1].stop
        return stop


def members_of(segments: Sequence[Segment]) -> tuple[list[int], list[int]]:
    """For each token of a row the number of its group, and of its completion within the group, 0 for the prompt."""
    groups: list[int] = []
    members: list[int] = []
    for number, segment in enumerate(segments):
        groups += [number] * (segment.stop - segment.prompt.start)
        for member, part in enumerate((segment.prompt, *segment.completions)):
            members += [member] * (part.stop - part.start)
    return groups, members


@dataclass(frozen=True)
class PackTensors:
    """A pack on its device. T forwarded tokens, N trained tokens.

    `groups_T` and `members_T` are those of `members_of`. `predictors_N[i]` is the position in the row whose hidden state predicts
    `targets_N[i]`. `old_logps_N` holds NaN where the current policy is the reference, and is None when that is so everywhere;
    `engine_logps_N` likewise where no engine measured.
    """

    ids_T: Tensor
    positions_T: Tensor
    groups_T: Tensor
    members_T: Tensor
    segments: tuple[Segment, ...]
    predictors_N: Tensor
    targets_N: Tensor
    weights_N: Tensor
    advantages_N: Tensor
    old_logps_N: Tensor | None
    external_N: Tensor
    engine_logps_N: Tensor | None


def collate(pack: Pack, device: torch.device, dtype: torch.dtype) -> PackTensors:
    """Turn a pack into tensors, in two uploads; `dtype` is that of weights, advantages and log-probs (float32 or float64)."""
    ids, positions, predictors, segments = _laid_out(pack)
    targets = [token for weighed in pack.completions() for token in weighed.completion.ids]
    external = _of_each_token(pack, lambda weighed: weighed.external)
    ids_T, positions_T, groups_T, members_T, predictors_N, targets_N, external_N = _uploaded(
        [ids, positions, *members_of(segments), predictors, targets, external], torch.int64, device
    )
    weights_N, advantages_N, old_logps_N, engine_logps_N = _uploaded(
        [
            _of_each_token(pack, lambda weighed: weighed.token_weight),
            _of_each_token(pack, lambda weighed: weighed.completion.advantage),
            _measured(pack, lambda completion: completion.old_logps_T),
            _measured(pack, lambda completion: completion.engine_logps_T),
        ],
        dtype,
        device,
    )
    return PackTensors(
        ids_T,
        positions_T,
        groups_T,
        members_T,
        tuple(segments),
        predictors_N,
        targets_N,
        weights_N,
        advantages_N,
        old_logps_N if len(old_logps_N) else None,
        external_N.bool(),
        engine_logps_N if len(engine_logps_N) else None,
    )


def _laid_out(pack: Pack) -> tuple[list[int], list[int], list[int], list[Segment]]:
    """The row's ids and positions, the places of its predictors, and where each group lies."""
    ids: list[int] = []
    positions: list[int] = []
    predictors: list[int] = []
    segments: list[Segment] = []
    for group in pack.groups:
        num_prompt = len(group.prompt_ids)
        prompt = slice(len(ids), len(ids) + num_prompt)
        ids.extend(group.prompt_ids)
        positions.extend(range(num_prompt))
        places: list[slice] = []
        for weighed in group.completions:
            own = slice(len(ids), len(ids) + weighed.num_forwarded)
            ids.extend(weighed.completion.ids[:-1])
            positions.extend(range(num_prompt, num_prompt + weighed.num_forwarded))
            predictors.append(
                prompt.stop - 1
            )  # the prompt's last token predicts the first of every completion
            predictors.extend(range(own.start, own.stop))
            places.append(own)
        segments.append(Segment(prompt, tuple(places)))
    return ids, positions, predictors, segments


def _of_each_token(pack: Pack, value_of: Callable[[WeighedCompletion], float]) -> list[float]:
    """A completion's value once for each of its tokens."""
    return [
        value
        for weighed in pack.completions()
        for value in repeat(value_of(weighed), len(weighed.completion.ids))
    ]


def _measured(pack: Pack, logps_of: Callable[[TokenCompletion], tuple[float, ...] | None]) -> list[float]:
    """Log-probs of all tokens, NaN where there are none; empty where no completion has any."""
    completions = [weighed.completion for weighed in pack.completions()]
    if not any(map(logps_of, completions)):
        return []
    return [logp for c in completions for logp in logps_of(c) or repeat(math.nan, len(c.ids))]


def _uploaded(
    rows: Sequence[Sequence[float]], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, ...]:
    """All rows in one transfer, each a tensor."""
    whole = upload(list(chain.from_iterable(rows)), dtype, device)
    return torch.split(whole, [len(row) for row in rows])
