"""Score a stranger's batch in pieces, and no longer than it may take.

Own scores never wait for a stranger's. Own questions do, for those of one piece.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from swarmd.loops.ports import SCORER_HANG_S, Caller

# Completions of one call: about 0.1 s of a core; the largest batch (64 rollouts of 64) is 0.8 s. At half, a worker's start (9 ms)
# is a fifth of the work; at double, twice as much is in vain when a question turns out to be held out.
COMPLETIONS_MAX = 512
# Questions of one call, each made anew in 0.03 to 3 ms: as many as one message may ask.
ITEMS_MAX = 64
# How long one author's workers may hold their place in a turn, computing or idle: five times what the largest batch takes. The next
# author waits for so long behind a worker that sleeps. At half, a machine a quarter as fast as ours would drop honest batches.
HELD_S, HELD_S_A_COMPLETION = 0.5, 0.001


async def score_in_pieces(
    scorer: Caller, items: Sequence[Sequence[Any]], deadline_s: float
) -> dict[str, Any]:
    """As the scorer's `score_external` for `[[dataset, seed, [text, ...]], ...]`, whose limits hold for all pieces together.

    After a piece with a held-out question, or one that was not scored in time, nothing more is scored, nor answered: no honest
    node asks the one, and who caused the other shall not cause it again.

    Raises:
        LocalError: the scorer died, or does not answer.
    """
    ends_s = time.monotonic() + deadline_s
    held_s_max = HELD_S + HELD_S_A_COMPLETION * sum(len(texts) for _, _, texts in items)
    whole: dict[str, Any] = {"prompts": [], "held_out": [], "rewards": [], "reasons_RG": []}
    whole |= {"cpu_s": 0.0, "held_s": 0.0}
    reasons: Counter[str] = Counter()
    for piece in pieces(items):
        # a piece for which no time is left is answered at once, with the reason `deadline`
        left_s = max(0.0, ends_s - time.monotonic())
        scores = await scorer.call(
            "score_external",
            items=piece,
            deadline_s=left_s,
            held_s_max=max(0.0, held_s_max - whole["held_s"]),
            within_s=2 * deadline_s + SCORER_HANG_S,
        )
        for key in ("prompts", "held_out", "rewards", "reasons_RG"):
            whole[key] += scores[key]
        for key in ("cpu_s", "held_s"):
            whole[key] += scores[key]
        reasons.update(scores["reasons"])
        if any(scores["held_out"]) or reasons["deadline"]:
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
