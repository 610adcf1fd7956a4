"""The one table that forgets: bounded whatever is done to it, and always by the oldest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.recent import Recent

KEYS = st.integers(0, 6)
ACTS = st.one_of(
    st.tuples(st.sampled_from(["set", "setdefault", "update"]), KEYS, st.integers()),
    st.tuples(st.sampled_from(["pop", "get", "move_to_end"]), KEYS, st.none()),
)


def expected(entries: list[tuple[int, int]], act: tuple[str, int, int]) -> list[tuple[int, int]]:
    """The entries after an act, without a bound; the oldest first."""
    name, key, value = act
    others, known = [entry for entry in entries if entry[0] != key], dict(entries)
    if name in ("set", "update"):
        return [*others, (key, value)]
    if name == "setdefault":
        return entries if key in known else [*entries, (key, value)]
    if name == "move_to_end" and key in known:
        return [*others, (key, known[key])]
    return others if name == "pop" else entries


def done(table: Recent[int, int], act: tuple[str, int, int]) -> None:
    name, key, value = act
    if name == "set":
        table[key] = value
    elif name == "update":
        table.update({key: value})
    elif name == "move_to_end":
        if key in table:
            table.move_to_end(key)
    else:
        getattr(table, name)(key, value)


@given(st.integers(1, 4), st.lists(ACTS, max_size=40))
def test_a_table_is_a_dictionary_that_keeps_the_newest(
    entries_max: int, acts: list[tuple[str, int, int]]
) -> None:
    table, model = Recent[int, int](entries_max), list[tuple[int, int]]()
    for act in acts:
        done(table, act)
        model = expected(model, act)[-entries_max:]
        assert list(table.items()) == model


def test_a_table_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least"):
        Recent(0)
