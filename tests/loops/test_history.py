"""History: what is remembered of authors and evaluations is bounded."""

from swarmd.loops.history import AUTHORS_KEPT, ROUNDS_KEPT, History


def test_of_endless_new_authors_the_latest_used_are_remembered() -> None:
    at = History()
    for number in range(AUTHORS_KEPT + 10):
        at.count_used({f"peer-{number}": 1, "friend": 2})
    assert len(at.used_by_author) == AUTHORS_KEPT
    assert at.used_by_author["friend"] == 2 * (AUTHORS_KEPT + 10)
    assert "peer-0" not in at.used_by_author


def test_evaluations_in_memory_are_bounded() -> None:
    at = History()
    for number in range(ROUNDS_KEPT + 10):
        at.evaluations.append({"round": number})
    assert [at.evaluations[0]["round"], len(at.evaluations)] == [10, ROUNDS_KEPT]
