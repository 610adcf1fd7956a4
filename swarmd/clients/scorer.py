"""The scorer: questions by their address, and rewards for completions.

A scorer that is stopped, or whose machine hangs, never answers: each call has a deadline, after which the process is replaced.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from swarmd.clients.worker import Worker, ask

# On top of twice the scoring's own deadline (another batch may be before ours): two lost zygotes cost 60 s each to start anew. A
# bound too low would end a slow machine's work again and again.
HANG_S = 600.0
# Completions of one call: about 0.1 s of a core; the largest batch (64 rollouts of 64) is 0.8 s. At half, a worker's start (9 ms)
# is a fifth of the work; at double, twice as much is in vain when a question turns out to be held out.
COMPLETIONS_MAX = 512
# Questions of one call, each made anew in 0.03 to 3 ms: as many as one message may ask.
ITEMS_MAX = 64
# How long one author's workers may hold their place in a turn, computing or idle: five times what the largest batch takes. The next
# author waits for so long behind a worker that sleeps. At half, a machine a quarter as fast as ours would drop honest batches.
HELD_S, HELD_S_A_COMPLETION = 0.5, 0.001


class Address(NamedTuple):
    """A question's origin: the dataset's number in the manifest, and the seed of its generator."""

    dataset: int
    seed: int


class ScoreItem(NamedTuple):
    """A question's address, and the completions to score for it."""

    dataset: int
    seed: int
    texts: Sequence[str]


class Questions(NamedTuple):
    """Prompts in the order of their addresses. An empty prompt is a question that cannot be made; it counts as held out."""

    prompts: list[str]
    held_out: list[bool]


class Scores(NamedTuple):
    """Scored items, in their order.

    Attributes:
        rewards_RG: each in [0, 1].
        reasons_RG: why a completion earned 0 without being scored; empty where it was scored.
        cpu_s: CPU time of the call, without that of a zygote that died.
        held_s: how long the workers held their place: CPU time and idleness, without waiting for a core.
    """

    prompts: list[str]
    held_out: list[bool]
    rewards_RG: list[list[float]]
    reasons_RG: list[list[str]]
    cpu_s: float
    held_s: float

    @property
    def reasons(self) -> Counter[str]:
        """Completions by the reason for which they were not scored."""
        return Counter(reason for reasons_G in self.reasons_RG for reason in reasons_G if reason)


class ScorerInfo(NamedTuple):
    """A scorer that has started: its sandbox, in a line for people."""

    sandbox: str


class ScorerOps(Protocol):
    """The operations of a scorer process."""

    OPS: ClassVar[frozenset[str]] = frozenset({"questions", "score", "score_external"})

    def start(self) -> ScorerInfo:
        """Be ready to answer."""

    def close(self) -> None:
        """End the processes below."""

    def questions(self, addresses: Sequence[Address]) -> Questions:
        """The questions at these addresses."""

    def score(self, items: Sequence[ScoreItem], deadline_s: float) -> Scores:
        """Rewards of this node's completions; what is not scored in time has 0 and the reason `deadline`."""

    def score_external(self, items: Sequence[ScoreItem], deadline_s: float, held_s_max: float) -> Scores:
        """As `score`, for other people's completions, beside it; `held_s` ends at `held_s_max`."""


@dataclass(frozen=True)
class Scorer:
    """Calls the operations of a scorer process, `ScorerOps`. `deadline_s` is wall time for the scoring of one batch.

    All operations raise LocalError when the scorer died, does not answer, or cannot do it.
    """

    worker: Worker
    deadline_s: float

    async def questions(self, addresses: Sequence[Address]) -> Questions:
        return await ask(self.worker, self._within_s, ScorerOps.questions, addresses=addresses)

    async def score(self, items: Sequence[ScoreItem]) -> Scores:
        return await ask(
            self.worker, self._within_s, ScorerOps.score, items=items, deadline_s=self.deadline_s
        )

    async def score_external(self, items: Sequence[ScoreItem]) -> Scores:
        """Rewards of one stranger's completions, piece by piece: own scores never wait, own questions for one piece.

        The limits hold for all pieces together. Nothing is scored, nor answered, after a piece with a held-out question (no
        honest node asks one) or with a completion that was not scored in time (its author shall not cause that again).
        """
        ends_s = time.monotonic() + self.deadline_s
        held_s_max = HELD_S + HELD_S_A_COMPLETION * sum(len(item.texts) for item in items)
        whole = Scores([], [], [], [], 0.0, 0.0)
        for piece in pieces(items):
            scores = await ask(
                self.worker,
                self._within_s,
                ScorerOps.score_external,
                items=piece,
                # with no time left the piece is answered at once, with the reason `deadline`
                deadline_s=max(0.0, ends_s - time.monotonic()),
                held_s_max=max(0.0, held_s_max - whole.held_s),
            )
            whole = Scores(
                whole.prompts + scores.prompts,
                whole.held_out + scores.held_out,
                whole.rewards_RG + scores.rewards_RG,
                whole.reasons_RG + scores.reasons_RG,
                whole.cpu_s + scores.cpu_s,
                whole.held_s + scores.held_s,
            )
            if any(scores.held_out) or scores.reasons["deadline"]:
                break
        return whole

    @property
    def _within_s(self) -> float:
        return 2 * self.deadline_s + HANG_S


def pieces(items: Sequence[ScoreItem]) -> Iterator[list[ScoreItem]]:
    """Items in order, so many at a time that they and their texts are within the bounds; at least one item."""
    piece: list[ScoreItem] = []
    num = 0
    for item in items:
        if piece and (len(piece) == ITEMS_MAX or num + len(item.texts) > COMPLETIONS_MAX):
            yield piece
            piece, num = [], 0
        piece.append(item)
        num += len(item.texts)
    if piece:
        yield piece
