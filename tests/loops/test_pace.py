"""Which rounds get a checkpoint."""

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
