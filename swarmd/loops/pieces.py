"""Score a stranger's batch in pieces: the scorer takes one call after the other, and own ones wait behind one piece at most."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from swarmd.loops.ports import SCORER_HANG_S, Caller

# Completions of one call: about 0.1 s of a core. The largest batch (64 rollouts of 64) is 0.8 s, and a flood of those left own
# rounds a third of their pace. At half, a worker's start (9 ms) is a fifth of the work; at double, own calls wait twice as long.
COMPLETIONS_MAX = 512
# Questions of one call, each made anew in 0.03 to 3 ms: as many as one message may ask.
ITEMS_MAX = 64


async def score_in_pieces(
    scorer: Caller, items: Sequence[Sequence[Any]], deadline_s: float
) -> dict[str, Any]:
    """As the scorer's `score` for `[[dataset, seed, [text, ...]], ...]`, whose deadline holds for all pieces together.

    After a piece with a held-out question nothing more is scored, nor answered: no honest node asks one.

    Raises:
        LocalError: the scorer died, or does not answer.
    """
    ends_s = time.monotonic() + deadline_s
    whole: dict[str, Any] = {"prompts": [], "held_out": [], "rewards": [], "cpu_s": 0.0}
    reasons: Counter[str] = Counter()
    for piece in pieces(items):
        # a piece for which no time is left is answered at once, with the reason `deadline`
        left_s = max(0.0, ends_s - time.monotonic())
        scores = await scorer.call(
            "score", items=piece, deadline_s=left_s, within_s=2 * deadline_s + SCORER_HANG_S
        )
        for key in ("prompts", "held_out", "rewards"):
            whole[key] += scores[key]
        whole["cpu_s"] += scores["cpu_s"]
        reasons.update(scores["reasons"])
        if any(scores["held_out"]):
            break
    return {**whole, "reasons": dict(reasons)}


def pieces(items: Sequence[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Items in order, so many at a time that they and their texts are within the bounds; at least one item."""
    piece: list[Sequence[Any]] = []
    num = 0
    for item in items:
        if piece and (len(piece) == ITEMS_MAX or num + len(item[2]) > COMPLETIONS_MAX):
            yield piece
            piece, num = [], 0
        piece.append(item)
        num += len(item[2])
    if piece:
        yield piece
