"""Draws with unproven and banned authors: never more than the limit, uniform within either kind, and what was held back is told."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.experience.buffer import Admission
from swarmd.experience.sampling import Candidate, Strategy, draw, draw_limited
from tests.experience.batches import NOW_MS, add, author, open_buffer
from tests.experience.test_sampling import CHI_SQUARE_MAX, chi_square

STRATEGIES = get_args(Strategy)


def named(*names: str) -> Callable[[bytes], bool]:
    return {author(name) for name in names}.__contains__


pools = st.lists(st.sampled_from([b"a", b"b", b"c", b"new", b"newer"]), max_size=30)


@given(
    strategy=st.sampled_from(STRATEGIES),
    authors=pools,
    num=st.integers(0, 12),
    limit=st.integers(0, 12),
    author_max=st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_the_limits_hold_and_nothing_else_is_lost(
    strategy: Strategy, authors: list[bytes], num: int, limit: int, author_max: int, seed: int
) -> None:
    pool = [Candidate(row, name, reward_total=row % 3) for row, name in enumerate(authors)]
    rows = draw_limited(
        pool,
        num,
        random.Random(seed),
        strategy,
        limited=lambda name: name.startswith(b"new"),
        limit=limit,
        author_max=author_max,
    )
    may_give = {name: min(author_max, held) for name, held in Counter(authors).items()}
    of_new = sum(may for name, may in may_give.items() if name.startswith(b"new"))
    of_proven = sum(may_give.values()) - of_new
    assert len(rows) == len(set(rows)) == min(num, of_proven + min(limit, of_new))
    assert sum(authors[row].startswith(b"new") for row in rows) <= limit
    assert max(Counter(authors[row] for row in rows).values(), default=0) <= author_max


@given(
    strategy=st.sampled_from(STRATEGIES),
    authors=pools,
    num=st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_a_limit_that_cannot_bind_changes_no_draw(
    strategy: Strategy, authors: list[bytes], num: int, seed: int
) -> None:
    pool = [Candidate(row, name, reward_total=row % 3) for row, name in enumerate(authors)]
    limited = draw_limited(
        pool, num, random.Random(seed), strategy, limited=lambda name: True, limit=num, author_max=num
    )
    assert limited == draw(pool, num, random.Random(seed), strategy)


def test_within_either_kind_every_rollout_is_drawn_equally_often() -> None:
    """Ten proven and forty new ones, four of at most one new: a new one is in a draw as often as any other new one."""
    pool = [Candidate(row, b"proven" if row < 10 else bytes([row])) for row in range(50)]
    rng, proven, new = random.Random(20250911), Counter[int](), Counter[int]()
    for _ in range(20_000):
        rows = draw_limited(pool, 4, rng, limited=lambda name: name != b"proven", limit=1, author_max=4)
        proven.update(row for row in rows if row < 10)
        new.update(row - 10 for row in rows if row >= 10)
    assert chi_square(proven, proven.total() / 10, 10) < CHI_SQUARE_MAX[9]
    assert chi_square(new, new.total() / 40, 40) < CHI_SQUARE_MAX[39]
    assert new.total() > 19_900  # forty of fifty: nearly every draw has its one


def test_new_ones_get_no_place_that_chance_would_not_give_them() -> None:
    """One new among ten, one to draw: a limit of one is no privilege."""
    pool = [Candidate(row, b"new" if row == 0 else b"proven") for row in range(10)]
    rng, drawn = random.Random(5), Counter[int]()
    for _ in range(20_000):
        drawn[draw_limited(pool, 2, rng, limited=lambda name: name == b"new", limit=1, author_max=2)[0]] += 1
    assert chi_square(drawn, 2000, 10) < CHI_SQUARE_MAX[9]


def test_by_author_still_gives_each_proven_author_the_same_chance() -> None:
    pool = [Candidate(row, b"a" if row < 9 else b"b") for row in range(10)]
    pool += [Candidate(row, b"new") for row in range(10, 20)]
    rng, drawn = random.Random(3), Counter[int]()
    for _ in range(20_000):
        (row,) = draw_limited(
            pool, 1, rng, "by-author", limited=lambda name: name == b"new", limit=0, author_max=1
        )
        drawn[int(row == 9)] += 1
    assert chi_square(drawn, 10_000, 2) < CHI_SQUARE_MAX[1]


def test_the_buffer_tells_who_was_drawn_and_how_many_were_held_back(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1])
    add(buffer, "new", range(9))
    admission = Admission(proven=named("ann"), unproven_max=2)
    sample = buffer.sample(6, random.Random(1), now_ms=NOW_MS, admission=admission)
    drawn = Counter(rollout.author for rollout in sample.rollouts)
    assert drawn == {author("ann"): 1, author("new"): 2}
    assert (sample.num_unproven, sample.shortfall, sample.num_held_back) == (2, 3, 3)
    assert (sample.num_pool, sample.num_informative_pool) == (10, 10)


def test_a_shortfall_that_no_limit_made_is_not_called_one(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "new", [1])
    admission = Admission(proven=named(), unproven_max=2)
    sample = buffer.sample(6, random.Random(1), now_ms=NOW_MS, admission=admission)
    assert (sample.num_unproven, sample.shortfall, sample.num_held_back) == (1, 5, 0)


def test_rollouts_of_the_banned_are_not_drawn_and_not_in_the_pool(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1])
    add(buffer, "eve", range(9))
    admission = Admission(proven=named("ann", "eve"), unproven_max=0, banned=named("eve"))
    sample = buffer.sample(3, random.Random(1), now_ms=NOW_MS, admission=admission)
    assert [rollout.author for rollout in sample.rollouts] == [author("ann")]
    assert (sample.num_pool, sample.shortfall, sample.num_held_back) == (1, 2, 0)


def test_each_author_is_asked_about_once(tmp_path: Path) -> None:
    buffer, asked = open_buffer(tmp_path), list[bytes]()

    def proven(name: bytes) -> bool:
        asked.append(name)
        return True

    add(buffer, "ann", range(50))
    add(buffer, "bob", range(50))
    buffer.sample(4, random.Random(1), now_ms=NOW_MS, admission=Admission(proven=proven, unproven_max=0))
    assert sorted(asked) == sorted([author("ann"), author("bob")])


@pytest.mark.parametrize(
    ("num", "num_authors", "share_max", "author_max"),
    [(4, 1, 0.5, 4), (4, 2, 0.5, 2),
     (4, 3, 0.5, 2), (4, 9, 0.5, 2), (6, 9, 0.1, 1), (10, 9, 0.29, 3), (4, 0, 0.5, 4), (0, 5, 0.5, 0)],
)  # fmt: skip
def test_one_author_gives_its_share_or_an_equal_part(
    num: int, num_authors: int, share_max: float, author_max: int
) -> None:
    admission = Admission(proven=named(), unproven_max=num, author_share_max=share_max)
    assert admission.author_max(num, num_authors) == author_max


def test_who_shares_informative_rollouts_only_is_not_drawn_more_than_its_share(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "eve", range(90))
    for name in ("ann", "bob", "cat"):
        add(buffer, name, range(2))
    admission = Admission(proven=lambda name: True, unproven_max=0, author_share_max=0.5)
    sample = buffer.sample(4, random.Random(1), now_ms=NOW_MS, admission=admission)
    drawn = Counter(rollout.author for rollout in sample.rollouts)
    assert (drawn[author("eve")], drawn.total(), sample.num_held_back) == (2, 4, 0)
