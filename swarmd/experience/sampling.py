"""How external rollouts are drawn: pure functions of candidates and a random stream, without replacement.

Source of `uniform`: arXiv 2509.08721, section 3: rollouts without advantage are dropped first, then J are drawn uniformly. The
candidates given here are already the informative ones. The other ways are this project's own, to be compared with it.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

Strategy = Literal["uniform", "by-author", "top-total", "first-arrived", "rare-first"]
# Whose rollouts stand in for external ones: the swarm's, or this node's own older ones (a control).
Source = Literal["swarm", "own"]


class Candidate(NamedTuple):
    """A rollout that may be drawn.

    `row` is its place in the buffer, `author` who signed it, `arrived` the number of the message it came with: a lower one came
    earlier. `reward_total` is the sum of the rewards that this node gave, over `num_completions`.
    """

    row: int
    author: bytes
    arrived: int = 0
    reward_total: float = 0.0
    num_completions: int = 1

    @property
    def reward_mean(self) -> float:
        """Mean reward of its completions."""
        return self.reward_total / self.num_completions


def draw(
    candidates: Sequence[Candidate], num: int, rng: random.Random, strategy: Strategy = "uniform"
) -> list[int]:
    """At most `num` different rows, in the order drawn; fewer when there are fewer candidates."""
    return _DRAWS[strategy](candidates, num, rng)


def draw_limited(
    candidates: Sequence[Candidate],
    num: int,
    rng: random.Random,
    strategy: Strategy = "uniform",
    *,
    limited: Callable[[bytes], bool],
    limit: int,
    author_max: int,
) -> list[int]:
    """As `draw`, with at most `author_max` rows of one author, and at most `limit` of those, together, for whom `limited` holds.

    Each draw is the strategy's among the candidates that may still be drawn: once a limit is reached those of its authors may
    not. Nothing else changes, so `uniform` stays uniform among them.
    """
    if limit >= num and author_max >= num:
        return draw(candidates, num, rng, strategy)
    num_of: Counter[bytes] = Counter()
    author_of = {candidate.row: candidate.author for candidate in candidates}
    rows: list[int] = []
    # every strategy draws one after the other, so passing over some leaves the order of the others as it would be without them
    for row in draw(candidates, len(candidates), rng, strategy):
        if len(rows) == num:
            break
        author = author_of[row]
        is_limited = limited(author)
        if num_of[author] == author_max or (is_limited and limit == 0):
            continue
        num_of[author] += 1
        limit -= is_limited
        rows.append(row)
    return rows


def draw_uniform(candidates: Sequence[Candidate], num: int, rng: random.Random) -> list[int]:
    """Every subset of that size is equally likely."""
    return [candidate.row for candidate in rng.sample(candidates, min(num, len(candidates)))]


def draw_by_author(candidates: Sequence[Candidate], num: int, rng: random.Random) -> list[int]:
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


def draw_top_total(candidates: Sequence[Candidate], num: int, rng: random.Random) -> list[int]:
    """The highest sum of rewards first. Rollouts of more completions have an edge, and nearly solved questions go first."""
    return _lowest(candidates, num, rng, lambda candidate: (-candidate.reward_total,))


def draw_first_arrived(candidates: Sequence[Candidate], num: int, rng: random.Random) -> list[int]:
    """What came first goes first; rollouts of one message came together."""
    return _lowest(candidates, num, rng, lambda candidate: (candidate.arrived,))


def draw_rare_first(candidates: Sequence[Candidate], num: int, rng: random.Random) -> list[int]:
    """The lowest mean reward above zero first: the rarest successes. Those at zero or below come last."""
    return _lowest(
        candidates, num, rng, lambda candidate: (candidate.reward_mean <= 0, candidate.reward_mean)
    )


def _lowest(
    candidates: Sequence[Candidate],
    num: int,
    rng: random.Random,
    key: Callable[[Candidate], tuple[float, ...]],
) -> list[int]:
    """The `num` lowest; among equal ones the random stream decides."""
    shuffled = rng.sample(candidates, len(candidates))
    return [candidate.row for candidate in sorted(shuffled, key=key)[:num]]


_DRAWS: dict[Strategy, Callable[[Sequence[Candidate], int, random.Random], list[int]]] = {
    "uniform": draw_uniform,
    "by-author": draw_by_author,
    "top-total": draw_top_total,
    "first-arrived": draw_first_arrived,
    "rare-first": draw_rare_first,
}
