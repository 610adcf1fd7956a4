"""How external rollouts are drawn: uniformly and without replacement, by pure functions of candidates and a generator.

Source: arXiv 2509.08721, section 3: rollouts without advantage are dropped first, then J are drawn uniformly. The
candidates given here are already the informative ones.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

# External rollouts are the swarm's, or as a control this node's own older ones.
Source = Literal["swarm", "own"]


class Candidate(NamedTuple):
    """A rollout that may be drawn: `row` is its place in the buffer, `author` who signed it."""

    row: int
    author: bytes


def draw(candidates: Sequence[Candidate], num: int, rng: random.Random) -> list[int]:
    """At most `num` different rows, in the order drawn: every subset of that size is equally likely."""
    return [candidate.row for candidate in rng.sample(candidates, min(num, len(candidates)))]


def draw_limited(
    candidates: Sequence[Candidate],
    num: int,
    rng: random.Random,
    *,
    holder: Callable[[bytes], bytes],
    limits: Mapping[bytes, int],
    holder_max: int,
) -> list[int]:
    """As `draw`, with at most `holder_max` rows of one holder, and at most so many as `limits` has for it.

    A holder is an author, or several who count as one. Once a holder reaches its limit, its candidates may not be
    drawn. Nothing else changes, so the draw stays uniform among the other candidates.
    """
    limits = {name: limit for name, limit in limits.items() if limit < num}
    if holder_max >= num and not limits:
        return draw(candidates, num, rng)
    num_of: Counter[bytes] = Counter()
    rows: list[int] = []
    left = list(candidates)
    while left and len(rows) < num:
        place = rng.randrange(len(left))
        left[place], left[-1] = left[-1], left[place]
        candidate = left.pop()
        name = holder(candidate.author)
        if num_of[name] < min(holder_max, limits.get(name, num)):
            num_of[name] += 1
            rows.append(candidate.row)
    return rows


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
