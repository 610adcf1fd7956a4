"""The fair queue: flows and names by time, in order within a name, and when one must go it is of the longest."""

import random

import pytest

from swarmd.fair.queue import FairQueue


def queue(*items: tuple[str, str, int]) -> FairQueue[str, str, int]:
    found = FairQueue[str, str, int]()
    for flow, name, item in items:
        found.put(flow, name, item)
    return found


def served(found: FairQueue[str, str, int], num: int, cost_s: float = 1.0) -> list[int]:
    """The next items, each of which takes so long."""
    items = []
    for _ in range(num):
        turn = found.next()
        assert turn is not None
        item = found.pop(*turn)
        assert item is not None
        found.charge(*turn, cost_s)
        items.append(item)
    return items


def test_flows_take_turns_and_names_in_a_flow() -> None:
    found = queue(("a", "x", 1), ("a", "x", 2), ("a", "y", 3), ("b", "z", 4), ("b", "z", 5))
    assert served(found, 5) == [1, 4, 3, 5, 2]
    assert (len(found), found.next()) == (0, None)


def test_how_many_wait() -> None:
    found = queue(("a", "x", 1), ("a", "y", 2), ("b", "x", 3))
    assert [found.num_in(flow) for flow in "abc"] == [2, 1, 0]
    assert queue().longest("a") is None


def test_nothing_waits_where_nothing_was_put() -> None:
    found = queue(("a", "x", 1))
    assert [found.pop("a", "y"), found.pop("b", "x"), found.pop("a", "x"), found.pop("a", "x")] == [
        None,
        None,
        1,
        None,
    ]


@pytest.mark.parametrize(
    ("items", "asks", "lost"),
    [
        ([("a", "x", 1), ("a", "x", 2), ("b", "y", 3)], "b", 2),  # the longest flow, its newest
        ([("a", "x", 1), ("a", "x", 2), ("a", "y", 3)], "a", 2),  # of the name with most
        ([("a", "x", 1), ("a", "y", 2)], "a", 2),  # of equals the one that came last
        ([("a", "x", 1), ("b", "y", 2)], "b", 2),  # of equal flows the one that asks
        ([("b", "y", 2), ("a", "x", 1)], "b", 2),
    ],
)
def test_who_loses_when_one_must_go(items: list[tuple[str, str, int]], asks: str, lost: int) -> None:
    found = queue(*items)
    longest = found.longest(asks)
    assert longest is not None
    assert found.drop_newest(longest) == lost
    assert sorted(served(found, len(found))) == sorted({1, 2, 3} & {item for _, _, item in items} - {lost})


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_reordered(seed: int) -> None:
    rng, found = random.Random(seed), queue()
    put: dict[tuple[str, str], list[int]] = {}
    came: dict[tuple[str, str], list[int]] = {}
    for item in range(400):
        for _ in range(rng.randrange(3)):
            turn = rng.choice("abc"), rng.choice("xyz")
            found.put(*turn, item)
            put.setdefault(turn, []).append(item)
        if (turn := found.next()) is not None:  # type: ignore[assignment]
            came.setdefault(turn, []).append(found.pop(*turn))  # type: ignore[arg-type]
            found.charge(*turn, rng.choice([0.001, 0.5]))
        assert len(found) == sum(map(len, put.values())) - sum(map(len, came.values()))
    while (last := found.next()) is not None:
        came.setdefault(last, []).append(found.pop(*last))  # type: ignore[arg-type]
    assert came == put
