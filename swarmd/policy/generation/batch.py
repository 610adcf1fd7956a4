"""Keeps a batch of completions full: whoever has ended leaves at once, and whoever waits takes the place."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from swarmd.policy.generation.decoder import Decoder, Prefilled
from swarmd.policy.generation.drawing import draw
from swarmd.policy.generation.engine import Sampled
from swarmd.policy.generation.rows import Rows
from swarmd.policy.upload import upload


@dataclass(eq=False)
class Completion:
    """One completion to be sampled: `number` is its row of uniform numbers, `room` the most tokens it may get."""

    number: int
    prompt: Sequence[int]
    room: int
    sampled: Sampled = field(default_factory=Sampled)

    @property
    def width(self) -> int:
        """Most tokens it can hold, prompt included."""
        return len(self.prompt) + self.room

    @property
    def ended(self) -> bool:
        return self.sampled.finished or len(self.sampled.ids) >= self.room

    @property
    def position(self) -> int:
        """The last token's position; that token is forwarded next."""
        return len(self.prompt) + len(self.sampled.ids) - 1


@dataclass(eq=False)
class Batch:
    """Samples completions until all have ended; one use.

    Attributes:
        new_rows: makes rows, given how many at most.
        waiting: none of them begun, widest first, those of one prompt in succession and with the very same prompt object.
        uniform_RT: a number in [0, 1) for each completion's number and step, where `drawing.place_of` says.
        temperature: see `draw`.
        eos_ids: ids that end a completion.
        tokens_max: most rows times the widest completion; one row may exceed it.
    """

    decoder: Decoder
    new_rows: Callable[[int], Rows]
    waiting: deque[Completion]
    uniform_RT: Tensor
    temperature: float
    eos_ids: frozenset[int]
    tokens_max: int
    num_rows_max: int = 1
    width: int = 0
    _active: list[Completion] = field(default_factory=list)
    # The prompt that not all of its completions have joined with yet.
    _held: tuple[Sequence[int], Prefilled] | None = None

    @torch.inference_mode()
    def run(self) -> None:
        """Sample all completions, in place. An error leaves some of them half sampled."""
        while self.waiting or self._active:
            while self.waiting and (num_free := self._num_free()) > 0:
                self._admit(num_free)
            if self._active:
                self._step()

    def _num_free(self) -> int:
        """How many may join now. Those half as wide as the batch wait for its end: then twice as many fit."""
        first = self.waiting[0]
        if not self._active:
            self.width = first.width
            self.num_rows_max = max(1, min(len(self.waiting), self.tokens_max // first.width))
            self._rows = self.new_rows(self.num_rows_max)
        elif not self._rows.refills or first.width * 2 <= self.width:
            return 0
        return self.num_rows_max - len(self._active)

    def _admit(self, num_free: int) -> None:
        """Prefill the next prompts and draw the first tokens of up to so many completions."""
        held, self._held = self._held, None
        if held:
            prompt, prefilled = held
            joining = self._take(prompt, num_free)
            owners = [0] * len(joining)
        else:
            joining = self._next_prompts(num_free)
            prompts = list({id(completion.prompt): completion.prompt for completion in joining}.values())
            places = {id(prompt): place for place, prompt in enumerate(prompts)}
            owners = [places[id(completion.prompt)] for completion in joining]
            prefilled = self.decoder.prefill(prompts)
        if self._rows.refills and self.waiting and self.waiting[0].prompt is joining[-1].prompt:
            self._held = joining[-1].prompt, prefilled
        owners_R, *draws = self._uploaded([owners, [c.number for c in joining], [0] * len(joining)])
        self._draw(joining, prefilled.logits_PV[owners_R], *draws)
        going_on = [place for place, completion in enumerate(joining) if not completion.ended]
        if going_on:
            self._rows.append(prefilled, [owners[place] for place in going_on])
            self._active += [joining[place] for place in going_on]

    def _next_prompts(self, num_free: int) -> list[Completion]:
        """Completions of whole prompts as far as they fit, or part of a single prompt's: then only that one is held."""
        joining: list[Completion] = []
        while self.waiting and num_free > len(joining):
            prompt = self.waiting[0].prompt
            num = sum(1 for completion in self.waiting if completion.prompt is prompt)
            if joining and self._rows.refills and num > num_free - len(joining):
                break
            joining += self._take(prompt, num_free - len(joining))
        return joining

    def _take(self, prompt: Sequence[int], num: int) -> list[Completion]:
        taken: list[Completion] = []
        while self.waiting and self.waiting[0].prompt is prompt and len(taken) < num:
            taken.append(self.waiting.popleft())
        return taken

    def _step(self) -> None:
        """One more token for each row, then let go of those that have ended."""
        tokens_R, positions_R, *draws = self._uploaded(
            [
                [completion.sampled.ids[-1] for completion in self._active],
                [completion.position for completion in self._active],
                [completion.number for completion in self._active],
                [len(completion.sampled.ids) for completion in self._active],
            ]
        )
        self._draw(self._active, self._rows.forward(tokens_R, positions_R), *draws)
        order = remaining([completion.ended for completion in self._active])
        if len(order) < len(self._active):
            self._active = [self._active[row] for row in order]
            if order:
                self._rows.keep(order)

    def _uploaded(self, rows: list[list[int]]) -> tuple[Tensor, ...]:
        """The rows on the device, in one transfer."""
        return upload(rows, torch.int64, self.decoder.device).unbind()

    def _draw(
        self, completions: Sequence[Completion], logits: Tensor, numbers_R: Tensor, steps_R: Tensor
    ) -> None:
        """Each completion's next token, by its uniform number of that step. The host waits here, and nowhere else in a step."""
        place = self.uniform_RT.device
        uniform_R = self.uniform_RT[numbers_R.to(place), steps_R.to(place)]
        tokens, logps = draw(logits.to(place), uniform_R, self.temperature)
        drawn = torch.stack([tokens.double(), logps.double()]).tolist()
        for completion, token, logp in zip(completions, *drawn, strict=True):
            completion.sampled.ids.append(int(token))
            completion.sampled.logps.append(logp)
            completion.sampled.finished = int(token) in self.eos_ids


def remaining(ended: Sequence[bool]) -> list[int]:
    """Places of those that have not ended, each gap filled with the last of them, so that few have to move."""
    order = [place for place, over in enumerate(ended) if not over]
    filled = list(range(len(order)))
    for gap in (place for place in range(len(order)) if ended[place]):
        filled[gap] = order.pop()
    return filled
