"""How external rollouts are drawn: pure functions of candidates and a random stream, without replacement.

Source: arXiv 2509.08721, section 3: rollouts without advantage are dropped first, then J are drawn uniformly. The candidates given
here are already the informative ones.
"""

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

Strategy = Literal["uniform", "authors"]


class Candidate(NamedTuple):
    """A rollout that may be drawn: its row in the buffer and who signed it."""

    row: int
    author: bytes


def draw(
    candidates: Sequence[Candidate], num: int, rng: random.Random, strategy: Strategy = "uniform"
) -> list[int]:
    """At most `num` different rows, in the order drawn; fewer when there are fewer candidates."""
    if strategy == "authors":
        return draw_authors_first(candidates, num, rng)
    return draw_uniform(candidates, num, rng)


def draw_uniform(candidates: Sequence[Candidate], num: int, rng: random.Random) -> list[int]:
    """Every subset of that size is equally likely."""
    return [candidate.row for candidate in rng.sample(candidates, min(num, len(candidates)))]


def draw_authors_first(candidates: Sequence[Candidate], num: int, rng: random.Random) -> list[int]:
    """Each draw takes an author uniformly among those with rollouts left, then one of its rollouts uniformly.

    A fast node then has no more influence on a round than a slow one. The price: an author's few rollouts are used up sooner.
    """
    by_author: dict[bytes, list[int]] = {}
    for candidate in candidates:
        by_author.setdefault(candidate.author, []).append(candidate.row)
    authors = list(by_author)
    drawn: list[int] = []
    while authors and len(drawn) < num:
        position = rng.randrange(len(authors))
        rows = by_author[authors[position]]
        drawn.append(rows.pop(rng.randrange(len(rows))))
        if not rows:
            authors[position] = authors[-1]
            authors.pop()
    return drawn
