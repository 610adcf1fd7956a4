"""Draws with unproven and banned authors: never more than the limit, uniform within either kind, and what was held back is told."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.experience.buffer import SwarmBuffer
from swarmd.experience.draws import Admission
from swarmd.experience.sampling import Candidate, draw, draw_limited
from swarmd.experience.shares import of_one_draw, rooms, water_line
from tests.experience.batches import NOW_MS, add, author, open_buffer
from tests.experience.test_sampling import CHI_SQUARE_MAX, chi_square


def named(*names: str) -> Callable[[bytes], bool]:
    return {author(name) for name in names}.__contains__


pools = st.lists(st.sampled_from([b"a", b"b", b"c", b"new", b"newer"]), max_size=30)


def kind(name: bytes) -> bytes:
    """New authors are one holder."""
    return b"new" if name.startswith(b"new") else name


@given(
    authors=pools,
    num=st.integers(0, 12),
    limit=st.integers(0, 12),
    holder_max=st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_the_limits_hold_and_nothing_else_is_lost(
    authors: list[bytes], num: int, limit: int, holder_max: int, seed: int
) -> None:
    pool = [Candidate(row, name) for row, name in enumerate(authors)]
    rng = random.Random(seed)
    rows = draw_limited(pool, num, rng, holder=kind, limits={b"new": limit}, holder_max=holder_max)
    may_give = {name: min(holder_max, held) for name, held in Counter(map(kind, authors)).items()}
    of_new = min(limit, may_give.pop(b"new", 0))
    assert len(rows) == len(set(rows)) == min(num, sum(may_give.values()) + of_new)
    given = Counter(kind(authors[row]) for row in rows)
    assert given[b"new"] <= limit
    assert max(given.values(), default=0) <= holder_max


@given(
    authors=pools,
    num=st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_a_limit_that_cannot_bind_changes_no_draw(authors: list[bytes], num: int, seed: int) -> None:
    pool = [Candidate(row, name) for row, name in enumerate(authors)]
    limited = draw_limited(pool, num, random.Random(seed), holder=kind, limits={b"new": num}, holder_max=num)
    assert limited == draw(pool, num, random.Random(seed))


def test_within_either_kind_every_rollout_is_drawn_equally_often() -> None:
    """Ten proven and forty new ones, four of at most one new: a new one is in a draw as often as any other new one."""
    pool = [Candidate(row, b"proven" if row < 10 else b"new %d" % row) for row in range(50)]
    rng, proven, new = random.Random(20250911), Counter[int](), Counter[int]()
    for _ in range(20_000):
        rows = draw_limited(pool, 4, rng, holder=kind, limits={b"new": 1}, holder_max=4)
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
        drawn[draw_limited(pool, 2, rng, holder=kind, limits={b"new": 1}, holder_max=2)[0]] += 1
    assert chi_square(drawn, 2000, 10) < CHI_SQUARE_MAX[9]


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
    ("num", "num_authors", "parts_max", "expected"),
    [(4, 1, 1.5, 6), (4, 2, 1.5, 3), (4, 3, 1.5, 2), (4, 9, 1.5, 1), (40, 9, 1.5, 7), (4, 0, 1.5, 4), (4, 9, 0, 4)],
)  # fmt: skip
def test_one_author_gives_its_equal_parts_of_a_draw(
    num: int, num_authors: int, parts_max: float, expected: int
) -> None:
    assert of_one_draw(num, num_authors, parts_max) == expected


def test_the_line_is_the_mean_of_what_it_leaves_times_the_parts() -> None:
    assert water_line([40] * 8 + [2000], 1.5) == pytest.approx(1.5 * 320 / 7.5)
    assert water_line([40] * 8, 1.5) == 60
    assert water_line([7], 1.5) == pytest.approx(10.5)


@given(parts=st.lists(st.integers(0, 10_000), min_size=1, max_size=60), parts_max=st.floats(1, 5))
def test_nobody_is_more_than_its_equal_parts_of_what_the_line_leaves(
    parts: list[int], parts_max: float
) -> None:
    line = water_line(parts, parts_max)
    left = [min(part, line) for part in parts]
    assert max(left) <= parts_max * sum(left) / len(left) * (1 + 1e-9)


def test_what_was_drawn_already_counts_and_what_was_asked_for_is_never_refused() -> None:
    parts = {b"eve": 2000, **{bytes([number]): 40 for number in range(8)}}
    assert rooms(parts, {b"eve": 60}, num_asked=4, parts_max=1.5) == {b"eve": 4}
    assert rooms(parts, {b"eve": 60}, num_asked=600, parts_max=1.5) == {b"eve": 40}
    assert rooms(parts, {}, num_asked=4, parts_max=0) == {}


def shares(buffer: SwarmBuffer, num_rounds: int, parts_max: float) -> tuple[float, float]:
    """What part of all draws is eve's, and what part of what was asked for is missing."""
    admission = Admission(proven=lambda name: True, unproven_max=0, author_parts_max=parts_max)
    rng, drawn = random.Random(7), Counter[bytes]()
    for _ in range(num_rounds):
        sample = buffer.sample(4, rng, now_ms=NOW_MS, admission=admission)
        drawn.update(rollout.author for rollout in sample.rollouts)
    return drawn[author("eve")] / drawn.total(), 1 - drawn.total() / (4 * num_rounds)


def test_two_thousand_informative_rollouts_are_drawn_like_sixty(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=5000)
    for first in (0, 1000):
        add(buffer, "eve", range(first, first + 1000))
    for number in range(8):
        add(buffer, f"ann {number}", range(40))
    share, missing = shares(buffer, 60, 1.5)
    assert (share < 0.2, missing) == (True, 0.0)
    assert shares(buffer, 60, 0)[0] > 0.8


def test_evicting_what_was_drawn_gives_no_room_for_more(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=100, author_share_max=0.5)
    for number in range(8):
        add(buffer, f"ann {number}", range(5))
    drawn = Counter[bytes]()
    for round in range(10):
        add(buffer, "eve", range(100 * round, 100 * round + 50))  # what was drawn of her before is evicted
        admission = Admission(proven=lambda name: True, unproven_max=0, author_parts_max=1.5)
        sample = buffer.sample(4, random.Random(round), now_ms=NOW_MS, admission=admission)
        drawn.update(rollout.author for rollout in sample.rollouts)
    assert drawn[author("eve")] <= 8  # 1.5 x 40 / 7.5


def test_draws_are_forgotten_with_the_age_limit(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    admission = Admission(proven=lambda name: True, unproven_max=0, author_parts_max=1.5)
    drawn = []
    for hour in range(3):
        now_ms = NOW_MS + hour * 3_700_000
        add(buffer, "eve", range(hour * 100, hour * 100 + 90), now_ms=now_ms)
        add(buffer, "ann", [hour], now_ms=now_ms)
        sample = buffer.sample(40, random.Random(1), now_ms=now_ms, admission=admission)
        drawn.append(sum(rollout.author == author("eve") for rollout in sample.rollouts))
    assert drawn[0] == drawn[1] == drawn[2] == 30  # 1.5 of two equal parts of 40


def test_all_who_are_not_proven_are_one_author(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=5000)
    for number in range(50):
        add(buffer, f"new {number}", range(40))
    for number in range(9):
        add(buffer, f"ann {number}", range(40))
    proven = named(*(f"ann {number}" for number in range(9)))
    admission = Admission(proven=proven, unproven_max=4, author_parts_max=1.5)
    rng = random.Random(1)
    num = sum(buffer.sample(4, rng, now_ms=NOW_MS, admission=admission).num_unproven for _ in range(80))
    assert num <= 0.2 * 320


def draws_of(buffer: SwarmBuffer, admission: Admission, num_draws: int) -> Counter[str]:
    """How many rollouts of whom were drawn, in so many draws of four."""
    drawn = Counter[bytes]()
    rng = random.Random(7)
    for _ in range(num_draws):
        drawn.update(
            rollout.author for rollout in buffer.sample(4, rng, now_ms=NOW_MS, admission=admission).rollouts
        )
    return +Counter({name: drawn[author(name)] for name in ("ann", "bob", "eve", "new")})


def test_who_is_left_out_of_updates_takes_nobodys_place_but_a_probe_now_and_then(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, uses_max=10_000)
    for name in ("ann", "bob", "eve"):
        add(buffer, name, range(20))
    admission = Admission(proven=named("ann", "bob"), unproven_max=1, left_out=named("eve"))
    drawn = draws_of(buffer, admission, 800)
    assert drawn.total() == 3200
    assert 60 < drawn["eve"] < 140  # of 800 draws one in PROBE_DRAWS: 100, and four standard errors
    before = draws_of(buffer, Admission(proven=named("ann", "bob"), unproven_max=1), 100)
    assert before["eve"] > 60  # as one who is new she had a place in most rounds


def test_who_is_left_out_fills_a_place_that_nobody_else_fills(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2])
    add(buffer, "eve", range(9))
    admission = Admission(proven=named("ann"), unproven_max=1, left_out=named("eve"))
    assert draws_of(buffer, admission, 1) == {"ann": 2, "eve": 1}


@pytest.mark.parametrize("unproven_max", [0, 1, 2])
def test_probes_are_among_those_who_are_not_proven(tmp_path: Path, unproven_max: int) -> None:
    buffer = open_buffer(tmp_path, uses_max=10_000)
    for name in ("new", "eve"):
        add(buffer, name, range(20))
    admission = Admission(proven=named(), unproven_max=unproven_max, left_out=named("eve"))
    drawn = draws_of(buffer, admission, 100)
    assert drawn["new"] + drawn["eve"] == 100 * unproven_max
    assert (drawn["eve"] > 0) == (unproven_max > 0)


def test_who_is_left_out_makes_nobodys_part_smaller(tmp_path: Path) -> None:
    """Equal parts are of those who teach: where one of three is left out, two others fill a round of four."""
    buffer = open_buffer(tmp_path, rollouts_max=5000)
    for name in ("ann", "bob", "eve"):
        add(buffer, name, range(40))
    admission = Admission(
        proven=named("ann", "bob"), unproven_max=0, left_out=named("eve"), author_parts_max=1.0
    )
    assert draws_of(buffer, admission, 15) == {"ann": 30, "bob": 30}


def test_new_names_do_not_push_proven_authors_out_of_a_full_buffer(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=60)
    for name in ("ann", "bob"):
        add(buffer, name, range(20))
    for number in range(200):
        add(buffer, f"new {number}", [0], proven=False)
    counts = buffer.counts()
    assert (counts.by_author[author("ann")], counts.by_author[author("bob")]) == (20, 20)
