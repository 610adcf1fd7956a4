"""Which rounds get a checkpoint."""

import math

from swarmd.loops.pace import Pace, interval_s


def saved_rounds(pace: Pace, *, seconds: float, good_every: int, rounds: int) -> list[tuple[int, bool]]:
    """Rounds that get a checkpoint, of so many of so many seconds each; with those that the canary asked for."""
    found = []
    for number in range(1, rounds + 1):
        now_s = number * seconds
        due, good = pace.due(number, now_s), bool(good_every) and number % good_every == 0
        if due or (good and pace.good_due(now_s)):
            pace.begun(now_s, good=good)
            found.append((number, good))
    return found


def test_without_an_interval_every_round_gets_one() -> None:
    assert saved_rounds(Pace(1), seconds=3, good_every=0, rounds=3) == [(1, False), (2, False), (3, False)]
    assert [n for n, _ in saved_rounds(Pace(2), seconds=3, good_every=0, rounds=5)] == [2, 4]


def test_a_canary_that_measures_often_has_all_checkpoints_for_itself() -> None:
    found = saved_rounds(Pace(1, 900), seconds=3, good_every=20, rounds=1200)
    assert found == [(200, True), (400, True), (600, True), (800, True), (1000, True), (1200, True)]


def test_without_a_canary_they_come_at_the_interval() -> None:
    assert saved_rounds(Pace(1, 900), seconds=3, good_every=0, rounds=1000) == [
        (300, False),
        (600, False),
        (900, False),
    ]


def test_a_canary_that_measures_seldom_is_not_left_out_for_long() -> None:
    for period_s in range(600, 4000, 7):
        good = [
            n
            for n, good in saved_rounds(Pace(1, 900), seconds=7, good_every=period_s // 7, rounds=8000)
            if good
        ]
        gaps = [after - before for before, after in zip([0, *good], good, strict=False)]
        assert max(gaps) * 7 <= 1800 + period_s + 7


def test_a_days_checkpoints_keep_to_their_bytes_whoever_asks_for_them() -> None:
    for size_bytes in (10**8, 7 * 10**9, 4 * 10**10):
        limit = 10**12
        for good_every in (0, 1, 20, 45, 90, 200, 700):
            pace = Pace(1, interval_s(-1, size_bytes, limit))
            saved = saved_rounds(pace, seconds=6, good_every=good_every, rounds=4 * 14_400)
            assert len(saved) * size_bytes <= 4 * limit + size_bytes


def crash_loop(
    life_s: float, *, starts: int, size_bytes: int = 7 * 10**9, limit: float = 10**12
) -> list[float]:
    """When checkpoints were begun by nodes that each live so long, one after another, with rounds of 5 seconds."""
    saved = list[float]()
    for start in range(starts):
        began_s = start * life_s
        pace = Pace(1, interval_s(-1, size_bytes, limit))
        clock_s = 1e6 * start  # each process's own clock begins anywhere
        pace.resumed(len(saved), began_s - saved[-1] if saved else math.inf, clock_s)
        for number in range(1, int(life_s / 5)):
            if pace.due(number, clock_s + 5 * number):
                pace.begun(clock_s + 5 * number)
                saved.append(began_s + 5 * number)
    return saved


def test_the_first_round_after_a_start_gets_none() -> None:
    for age_s in (0.0, 10.0, 10_000.0, math.inf):
        pace = Pace(1, 900)
        pace.resumed(7, age_s, now_s=5e5)
        assert pace.saved_round == 7
        assert not pace.due(8, 5e5 + 5)
        assert not pace.due(8, 5e5 + 299)
        assert pace.due(8, 5e5 + 900)


def test_a_crash_loop_keeps_to_the_bytes_of_a_day() -> None:
    for life_s in (60, 310, 400, 900, 1000):
        for limit in (10**12, 10**11):
            saved = crash_loop(life_s, starts=int(2 * 86_400 / life_s), limit=limit)
            assert len(saved) * 7 * 10**9 <= 2 * limit + 7 * 10**9


def test_a_crash_loop_goes_on_where_each_node_lives_for_more_than_a_third_of_the_interval() -> None:
    assert crash_loop(60, starts=100) == []
    assert len(crash_loop(310, starts=100)) > 25


def test_a_clock_that_went_back_does_no_harm() -> None:
    pace = Pace(1, 900)
    pace.resumed(7, -1e9, now_s=0.0)
    assert pace.due(8, 900)


def test_without_an_interval_the_first_round_after_a_start_gets_one() -> None:
    pace = Pace(1)
    pace.resumed(0, math.inf, now_s=5e5)
    assert pace.due(8, 5e5 + 1)
