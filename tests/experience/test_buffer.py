"""The swarm's buffer while all is well with the disk: what is stored, drawn, counted and evicted."""

import random
from pathlib import Path

import pytest

from swarmd.experience.buffer import AddResult, SwarmBuffer
from tests.experience.batches import NOW_MS, UNINFORMATIVE, add, author, batch, open_buffer

HOUR_MS = 3_600_000


def held(buffer: SwarmBuffer) -> dict[str, set[int]]:
    """Counters by author, whether they can be drawn or not."""
    work = "SELECT author, counter FROM rollouts"
    rows = buffer._store.transaction(lambda db: db.execute(work).fetchall())
    names = {author(name): name for name in ("ann", "bob", "cyd", "dan", "eve")}
    return {name: {c for a, c in rows if names[a] == name} for name in {names[a] for a, _ in rows}}


def test_a_rollout_comes_back_as_it_was_scored(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    buffer.add(batch("ann", [5], created_ms=NOW_MS - 7), ["2 + 2?"], [[0.25, 1.0]], received_ms=NOW_MS)
    (rollout,) = buffer.sample(1, random.Random(1), now_ms=NOW_MS).rollouts
    assert (rollout.author, rollout.counter, rollout.created_ms) == (author("ann"), 5, NOW_MS - 7)
    assert (rollout.prompt, rollout.rewards_G, rollout.policy_version) == ("2 + 2?", [0.25, 1.0], 3)
    assert rollout.external
    assert rollout.completions[1].text == "<answer>4</answer> 1"


def test_peers_may_send_any_number_of_completions(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1], rewards_G=(1.0, 0.0))
    add(buffer, "bob", [1], rewards_G=(1.0, 0.0, 0.0, 0.5, 0.0))
    drawn = buffer.sample(2, random.Random(1), now_ms=NOW_MS).rollouts
    assert sorted(len(rollout.completions) for rollout in drawn) == [2, 5]


def test_a_rollout_is_drawn_only_as_often_as_allowed(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, uses_max=2)
    add(buffer, "ann", [1])
    shortfalls = [buffer.sample(1, random.Random(1), now_ms=NOW_MS).shortfall for _ in range(3)]
    assert shortfalls == [0, 0, 1]


def test_a_pool_smaller_than_asked_for_is_given_whole_and_the_rest_reported(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2, 3])
    sample = buffer.sample(8, random.Random(1), now_ms=NOW_MS)
    assert (len(sample.rollouts), sample.num_informative_pool, sample.num_pool, sample.shortfall) == (
        3,
        3,
        3,
        5,
    )


def test_a_pool_without_signal_gives_nothing_at_once(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", range(20), rewards_G=UNINFORMATIVE)
    sample = buffer.sample(4, random.Random(1), now_ms=NOW_MS)
    assert (sample.rollouts, sample.num_informative_pool, sample.num_pool, sample.shortfall) == ([], 0, 20, 4)


def test_an_empty_buffer_gives_nothing_at_once(tmp_path: Path) -> None:
    sample = open_buffer(tmp_path).sample(4, random.Random(1), now_ms=NOW_MS)
    assert (sample.rollouts, sample.num_pool, sample.shortfall) == ([], 0, 4)


def test_the_share_without_external_rollouts_needs_no_buffer(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1])
    assert buffer.sample(0, random.Random(1), now_ms=NOW_MS).shortfall == 0


@pytest.mark.parametrize(("age_s", "num_drawn"), [(3600, 1), (3601, 0)])
def test_over_age_rollouts_are_not_drawn(tmp_path: Path, age_s: int, num_drawn: int) -> None:
    buffer = open_buffer(tmp_path, age_s_max=3600)
    add(buffer, "ann", [1], age_s=age_s)
    sample = buffer.sample(1, random.Random(1), now_ms=NOW_MS)
    assert (len(sample.rollouts), sample.num_over_age) == (num_drawn, 1 - num_drawn)


def test_only_rollouts_that_could_else_be_drawn_count_as_over_age(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, age_s_max=3600, uses_max=1)
    add(buffer, "ann", [1], age_s=60)
    add(buffer, "bob", [1, 2], age_s=120)
    add(buffer, "cyd", [1], rewards_G=UNINFORMATIVE, age_s=60)
    buffer.sample(1, random.Random(1), now_ms=NOW_MS)
    assert buffer.sample(9, random.Random(1), now_ms=NOW_MS + HOUR_MS).num_over_age == 2


def test_a_clock_that_runs_ahead_does_not_make_a_rollout_younger(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1], age_s=-3000)
    assert buffer.sample(1, random.Random(1), now_ms=NOW_MS + HOUR_MS + 1).rollouts == []


def test_the_same_rollout_is_stored_once(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    assert add(buffer, "ann", [1, 2]) == AddResult(2, 0, 0)
    assert add(buffer, "ann", [2, 3]) == AddResult(1, 1, 0)
    assert add(buffer, "bob", [2]) == AddResult(1, 0, 0)


def test_a_rollout_without_prompt_is_skipped(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    rewards_RG = [[1.0, 0.0], [], [1.0, 0.0]]
    assert (
        buffer.add(batch("ann", [1, 2, 3]), ["?", None, "?"], rewards_RG, received_ms=NOW_MS).num_added == 2
    )
    assert held(buffer) == {"ann": {1, 3}}


@pytest.mark.parametrize(
    ("prompts", "rewards_RG", "message"),
    [
        (["?"], [[1.0, 0.0]] * 2, "2 rollouts need"),
        (["?", "?"], [[1.0, 0.0]], "2 rollouts need"),
        (["?", "?"], [[1.0], [1.0, 0.0]], "2 completions need"),
        (["?", "?"], [[1.0, 0.0], [float("nan"), 0.0]], "finite"),
    ],
)
def test_scores_that_do_not_fit_the_batch_are_refused(
    tmp_path: Path, prompts: list[str | None], rewards_RG: list[list[float]], message: str
) -> None:
    buffer = open_buffer(tmp_path)
    with pytest.raises(ValueError, match=message):
        buffer.add(batch("ann", [1, 2]), prompts, rewards_RG, received_ms=NOW_MS)
    assert buffer.counts().num_rollouts == 0


def test_counts_tell_what_is_held_by_whom(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", [1, 2], age_s=60)
    add(buffer, "bob", [1], rewards_G=UNINFORMATIVE)
    buffer.sample(1, random.Random(1), now_ms=NOW_MS)
    counts = buffer.counts()
    assert (counts.num_rollouts, counts.num_informative) == (3, 2)
    assert counts.by_author == {author("ann"): 2, author("bob"): 1}


def test_counts_follow_what_is_evicted(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=2)
    add(buffer, "ann", [1], rewards_G=UNINFORMATIVE)
    add(buffer, "bob", [1, 2])
    assert (buffer.counts().num_informative, buffer.counts().by_author) == (2, {author("bob"): 2})


def test_counting_reads_no_rollout(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path)
    add(buffer, "ann", range(50))
    queries: list[str] = []
    buffer._store.transaction(lambda db: db.set_trace_callback(queries.append))
    buffer.counts()
    assert [query for query in queries if "FROM" in query] == [
        "SELECT author, num, num_informative, size_bytes FROM authors"
    ]


def test_counts_of_nothing_are_zero(tmp_path: Path) -> None:
    counts = open_buffer(tmp_path).counts()
    assert (counts.num_rollouts, counts.num_informative, counts.size_bytes, counts.by_author) == (0, 0, 0, {})


def test_what_will_not_be_drawn_again_goes_first(tmp_path: Path) -> None:
    """Over-age, used up, uninformative, then the oldest: one more rollout at a time shows the order."""
    buffer = open_buffer(tmp_path, rollouts_max=4)
    add(buffer, "ann", [1])
    buffer.sample(1, random.Random(1), now_ms=NOW_MS)
    add(buffer, "bob", [2], rewards_G=UNINFORMATIVE, age_s=30)
    add(buffer, "cyd", [3], age_s=3700)
    add(buffer, "dan", [4], age_s=60)
    gone = []
    for counter in (5, 6, 7, 8):
        before = {c for counters in held(buffer).values() for c in counters}
        add(buffer, "eve", [counter], age_s=20 - counter)
        gone.append((before - {c for counters in held(buffer).values() for c in counters}).pop())
    # Last, dan holds one and eve four: hers goes, although his is older.
    assert gone == [3, 1, 2, 5]


def test_a_flood_of_one_author_evicts_nobody_else(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=20, author_share_max=0.25)
    for name in ("ann", "bob", "cyd"):
        add(buffer, name, range(5), age_s=600)
    for counter in range(100):
        add(buffer, "eve", [counter])
    assert held(buffer) == {
        "eve": set(range(95, 100)),
        **{name: set(range(5)) for name in ("ann", "bob", "cyd")},
    }


def test_a_full_buffer_takes_from_who_holds_most(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=10)
    add(buffer, "ann", range(2), age_s=900)
    add(buffer, "bob", range(8), age_s=60)
    add(buffer, "eve", range(50))
    assert {name: len(counters) for name, counters in held(buffer).items()} == {"ann": 2, "bob": 4, "eve": 4}


def test_an_author_over_its_share_loses_its_own_oldest(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=8, author_share_max=0.5)
    add(buffer, "bob", [1], age_s=900)
    for counter in range(6):
        add(buffer, "ann", [counter], age_s=100 - counter)
    assert held(buffer) == {"bob": {1}, "ann": {2, 3, 4, 5}}


def test_bytes_are_bounded_too(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, size_bytes_max=100_000)
    for counter in range(60):
        add(buffer, "ann" if counter % 2 else "bob", [counter], text="x" * 5000)
    counts = buffer.counts()
    assert counts.size_bytes <= 100_000
    assert counts.num_rollouts >= 9
    assert set(range(56, 60)) <= {c for counters in held(buffer).values() for c in counters}


def test_a_batch_larger_than_the_share_leaves_nothing_behind(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, size_bytes_max=20_000, author_share_max=0.1)
    assert add(buffer, "ann", [1], text="x" * 5000) == AddResult(1, 0, 1)
    assert buffer.counts().size_bytes == 0


def test_an_evicted_rollout_does_not_come_back(tmp_path: Path) -> None:
    buffer = open_buffer(tmp_path, rollouts_max=1)
    add(buffer, "ann", [1], age_s=60)
    add(buffer, "ann", [2])
    assert add(buffer, "ann", [1]) == AddResult(0, 1, 0)


@pytest.mark.parametrize("bad", [{"rollouts_max": 0}, {"uses_max": 0}, {"author_share_max": 0.0}])
def test_bounds_that_hold_nothing_are_refused(tmp_path: Path, bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        open_buffer(tmp_path, **bad)
