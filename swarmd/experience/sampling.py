"""How external rollouts are drawn: pure functions of candidates and a generator, without replacement.

Source of `uniform`: arXiv 2509.08721, section 3: rollouts without advantage are dropped first, then J are drawn uniformly. The
candidates given here are already the informative ones. The other ways are this project's own, to be compared with it.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

Strategy = Literal["uniform", "by-author", "top-total", "first-arrived", "rare-first"]
# External rollouts are the swarm's, or as a control this node's own older ones.
Source = Literal["swarm", "own"]


class Candidate(NamedTuple):
    """A rollout that may be drawn.

    `row` is its place in the buffer, `author` who signed it, `arrived` the number of its message: a lower number came earlier.
    `reward_total` is the sum of the rewards that this node gave, over `num_completions`.
    """

    row: int
    author: bytes
    arrived: int = 0
    reward_total: float = 0.0
    num_completions: int = 1

    @property
    def reward_mean(self) -> float:
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
    holder: Callable[[bytes], bytes],
    limits: Mapping[bytes, int],
    holder_max: int,
) -> list[int]:
    """As `draw`, with at most `holder_max` rows of one holder, and at most so many as `limits` has for it.

    A holder is an author, or several who count as one. The strategy draws among the candidates that may still be drawn. Once a
    holder reaches its limit, its candidates may not. Nothing else changes, so `uniform` stays uniform among the other candidates.
    """
    limits = {name: limit for name, limit in limits.items() if limit < num}
    if holder_max >= num and not limits:
        return draw(candidates, num, rng, strategy)
    num_of: Counter[bytes] = Counter()
    rows: list[int] = []
    # Every strategy draws one rollout after another, so passing over some leaves the order of the others as it is.
    for candidate in _one_by_one(candidates, rng, strategy):
        if len(rows) == num:
            break
        name = holder(candidate.author)
        if num_of[name] >= min(holder_max, limits.get(name, num)):
            continue
        num_of[name] += 1
        rows.append(candidate.row)
    return rows


def _one_by_one(
    candidates: Sequence[Candidate], rng: random.Random, strategy: Strategy
) -> Iterator[Candidate]:
    """All candidates in the order in which the strategy draws them; a uniform one costs only what is taken."""
    if strategy == "uniform":
        left = list(candidates)
        while left:
            place = rng.randrange(len(left))
            left[place], left[-1] = left[-1], left[place]
            yield left.pop()
        return
    by_row = {candidate.row: candidate for candidate in candidates}
    for row in draw(candidates, len(candidates), rng, strategy):
        yield by_row[row]


def cut_off(
    candidates: Sequence[Candidate],
    rooms: Mapping[bytes, int],
    rng: random.Random,
    holder: Callable[[bytes], bytes],
) -> Sequence[Candidate]:
    """Leave each holder that `rooms` names so many candidates, chosen at random; the others keep all. The order stays."""
    if not rooms:
        return candidates
    places: dict[bytes, list[int]] = {name: [] for name in rooms}
    for place, candidate in enumerate(candidates):
        if (name := holder(candidate.author)) in places:
            places[name].append(place)
    dropped: set[int] = set()
    for name, found in places.items():
        dropped.update(rng.sample(found, max(0, len(found) - rooms[name])))
    return [candidate for place, candidate in enumerate(candidates) if place not in dropped]


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
    """The first to arrive goes first; rollouts of one message came together."""
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
    """The `num` lowest; among equal ones the generator decides."""
    shuffled = rng.sample(candidates, len(candidates))
    return [candidate.row for candidate in sorted(shuffled, key=key)[:num]]


_DRAWS: dict[Strategy, Callable[[Sequence[Candidate], int, random.Random], list[int]]] = {
    "uniform": draw_uniform,
    "by-author": draw_by_author,
    "top-total": draw_top_total,
    "first-arrived": draw_first_arrived,
    "rare-first": draw_rare_first,
}
