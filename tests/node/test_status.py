"""The documents: always JSON, and true."""

import json
import math
from typing import Any

import pytest

from swarmd.experience.pools import LocalPool
from swarmd.loops.progress import Progress
from swarmd.loops.record import Round, finite_or_none
from swarmd.loops.shown import BufferShown, NetworkShown
from swarmd.node.status import About, id_document, peers_document, status_document
from tests.loops.fakes import MS, a_round, network_stats, peer

ABOUT = About(
    pid=1,
    started_ms=MS - 5000,
    peer_id="12D3KooWme",
    public_key="00" * 32,
    addresses=("/ip4/127.0.0.1/tcp/4810/p2p/12D3KooWme", "/ip4/10.0.0.1/tcp/4810/p2p/12D3KooWme"),
    swarm="tiny",
    topic="/swarmd/1/tiny/0",
    model="tiny",
    num_parameters=1000,
    device="cpu",
    engine="transformers 5.19.0",
    placement="shared",
    sandbox="full",
    num_local=4,
    num_external=4,
    data_dir="/data",
    metrics_url="http://127.0.0.1:9810/metrics",
    solo=False,
)


class FakeChild:
    """What the documents read of a supervised child."""

    def __init__(self, info: Any) -> None:
        self.info, self.up, self.pid, self.num_restarts, self.silent_s = info, bool(info), 2, 0, 0.0


UP: Any = {"scorer": FakeChild("up")}


def progress() -> Progress:
    return Progress(LocalPool(staleness_max=0))


def with_peers() -> Progress:
    at = progress()
    at.shown.network = NetworkShown([peer("a"), peer("a"), peer("b")])
    return at


def as_json(document: dict[str, Any]) -> str:
    """As the control server would; raises ValueError on NaN."""
    return json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(
    "rounds", [[], [a_round()], [a_round(reward_external=1.0, num_external=3), a_round()]], ids=len
)
def test_the_status_is_json_from_the_first_moment(rounds: list[Round]) -> None:
    at = with_peers()
    at.history.rounds.extend(rounds)
    as_json(status_document(ABOUT, at, UP, MS))


def test_means_are_over_the_rounds_that_had_something() -> None:
    at = with_peers()
    at.history.rounds.extend(
        [a_round(reward_own=0.0), a_round(reward_own=1.0, reward_external=0.25, num_external=4)]
    )
    document = status_document(ABOUT, at, UP, MS)
    assert document["reward"]["own"] == 0.5
    assert document["reward"]["external"] == 0.25
    assert document["mix"]["got_external"] == 2.0
    assert document["network"]["num_peers"] == 2
    assert document["uptime_s"] == 5.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_becomes_null(value: float) -> None:
    assert finite_or_none(value) is None


@pytest.mark.parametrize("value", [0.0, 3, "text", None, {"a": 1}])
def test_everything_else_stays(value: Any) -> None:
    assert finite_or_none(value) == value


def test_a_peer_is_shown_with_what_it_gave() -> None:
    at = with_peers()
    at.shown.buffer, at.history.used_by_author = BufferShown(by_author={"b": 3}), {"b": 2}
    rows = {
        row["peer_id"]: row for row in peers_document(at, {"a": "new", "b": "banned"}.__getitem__)["peers"]
    }
    assert (rows["b"]["rollouts_held"], rows["b"]["rollouts_used"]) == (3, 2)
    assert (rows["a"]["rollouts_held"], rows["a"]["rollouts_used"]) == (0, 0)
    assert (rows["a"]["standing"], rows["b"]["standing"]) == ("new", "banned")


def test_addresses_can_be_given_to_others_as_they_stand() -> None:
    assert id_document(ABOUT)["addresses"] == list(ABOUT.addresses)


def test_verdicts_are_told_with_what_was_not_judged_as_ignored() -> None:
    at = progress()
    stats = network_stats(rate_limited=3, verdicts={"signature": 2, "age_stale": 1, "accepted": 4})
    at.shown.network = NetworkShown((), stats)
    told = status_document(ABOUT, at, UP, MS)["network"]["stats"]
    assert [told[key] for key in ("accepted", "ignored", "rejected", "rate_limited")] == [4, 4, 2, 3]
    assert status_document(ABOUT, progress(), UP, MS)["network"]["stats"] == {}
