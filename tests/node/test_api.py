"""The API: answers from the first moment of a start, and nothing a client sends can end the node."""

import json
from dataclasses import replace
from typing import Any

import pytest
import trio.testing

from swarmd.clients.network import NetworkInfo
from swarmd.clients.scorer import ScorerInfo
from swarmd.control.http import Request, Response
from swarmd.errors import ChildDied, DiskFull, LocalError, Temporary
from swarmd.metrics import Metrics
from swarmd.node.api import METRICS_AGE_S_MAX, Api
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.signing import Identity, peer_id_of
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from tests.loops.fakes import MS, FakeNetwork, FakePolicy, a_round
from tests.loops.parts import MANIFEST, ME, OTHER, Loops, value
from tests.node.test_health import health_of
from tests.node.test_status import ABOUT, FakeChild, progress, with_peers

STARTED = {
    "generation": FakePolicy().about()._replace(engine="vllm", engine_version="0.32.0"),
    "scorer": ScorerInfo("full"),
    "network": NetworkInfo("me", ["/ip4/127.0.0.1/tcp/1"], "topic"),
}


def api(info: dict[str, Any] = STARTED, at: Any = None) -> Api:
    children: Any = {name: FakeChild(said) for name, said in info.items()}
    return Api(
        replace(ABOUT, public_key=ME.public_key.hex()),
        children,
        at or with_peers(),
        Metrics(),
        lambda: MS,
        MANIFEST,
        Loops().bans(),
        health_of(at or with_peers(), workers=children),
    )


async def ask(one: Api, path: str, *, method: str = "GET", body: bytes = b"", **query: str) -> Response:
    return await one.operator_routes()[method, path](Request(method, path, query, body))


def decoded(response: Response) -> Any:
    return json.loads(response.body)


@pytest.mark.parametrize(
    "path", ["/v1/status", "/v1/peers", "/v1/id", "/v1/rounds", "/v1/bans", "/metrics", "/healthz"]
)
@pytest.mark.parametrize("info", [STARTED, dict.fromkeys(STARTED)], ids=["started", "starting"])
async def test_everything_is_answered_from_the_first_moment(info: dict[str, Any], path: str) -> None:
    response = await ask(api(info, progress()), path)
    assert response.status == 200
    assert response.body


async def test_what_the_children_said_is_in_the_status() -> None:
    document = decoded(await ask(api(), "/v1/status"))
    model = document["model"]
    assert (model["device"], model["engine"], document["sandbox"]) == ("cpu", "vllm 0.32.0", "full")
    assert document["network"]["addresses"] == ["/ip4/127.0.0.1/tcp/1"]
    assert document["workers"]["scorer"] == {"up": True, "pid": 2, "restarts": 0}


@pytest.mark.parametrize(("info", "status"), [(STARTED, 200), ({**STARTED, "scorer": None}, 503)])
async def test_a_node_is_ready_when_every_child_is_up(info: dict[str, Any], status: int) -> None:
    response = await ask(api(info), "/readyz")
    assert response.status == status
    assert (b"scorer" in response.body) is (status == 503)


@pytest.mark.parametrize(("last", "num"), [("0", 0), ("2", 2), ("99999999", 5), ("007", 5)])
async def test_the_last_rounds(last: str, num: int) -> None:
    at = with_peers()
    at.history.rounds.extend(a_round(number) for number in range(5))
    rounds = decoded(await ask(api(at=at), "/v1/rounds", last=last))["rounds"]
    assert [r["round"] for r in rounds] == list(range(5))[5 - num :]


@pytest.mark.parametrize("last", ["", "-1", "x", "1.5", "²", "٣", "9" * 5000, " 1"])
async def test_a_number_that_is_none_is_refused(last: str) -> None:
    assert (await ask(api(), "/v1/rounds", last=last)).status == 400


@pytest.mark.parametrize(
    ("query", "evaluate"), [({}, False), ({"evaluate": "1"}, True), ({"evaluate": "x"}, False)]
)
async def test_a_stop_is_passed_on(query: dict[str, str], evaluate: bool) -> None:
    one = api()
    await ask(one, "/v1/stop", method="POST", **query)
    assert (one.progress.stop_requested, one.progress.evaluate_at_stop) == (True, evaluate)


def test_everybody_else_can_change_nothing() -> None:
    assert {method for method, _ in api().public_routes()} == {"GET"}
    assert {path for _, path in api().public_routes()} == {"/metrics", "/healthz", "/readyz"}


async def test_evaluations_are_told_with_the_rounds() -> None:
    at = progress()
    at.history.evaluations.append({"round": 3, "mean": 0.5})
    assert decoded(await ask(api(at=at), "/v1/rounds"))["evaluations"] == [{"round": 3, "mean": 0.5}]


def sealed(identity: Identity = ME, *, num: int = 2, created_ms: int = MS) -> bytes:
    completions = (Completion(text="4", finished=True), Completion(text="5", finished=True))
    rollouts = tuple(Rollout(dataset=0, counter=counter, completions=completions) for counter in range(num))
    return identity.seal(
        RolloutBatch(rollouts=rollouts), created_ms=created_ms, policy="by hand", policy_version=0
    )


def with_network() -> tuple[Api, FakeNetwork]:
    one, network = api(), FakeNetwork()
    one.children = {**one.children, "network": network}  # type: ignore[dict-item]
    return one, network


async def publish(one: Api, body: bytes) -> Response:
    return await ask(one, "/v1/publish", method="POST", body=body)


async def test_a_sealed_message_of_this_nodes_key_is_published_as_it_is() -> None:
    one, network = with_network()
    response = await publish(one, sealed())
    assert (response.status, decoded(response)["subscribers"]) == (200, network.num_peers)
    assert [args["data"] for args in network.asked("publish")] == [sealed()]
    assert one.progress.history.num_shared == with_peers().history.num_shared + 2
    assert value(one.metrics, "gossip_published_total", result="ok") == 1


async def test_what_nobody_took_is_not_counted_as_shared() -> None:
    one, network = with_network()
    network.num_peers = 0
    assert decoded(await publish(one, sealed()))["subscribers"] == 0
    assert one.progress.history.num_shared == with_peers().history.num_shared
    assert value(one.metrics, "gossip_published_total", result="no_peers") == 1


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "message_decode"),
        (b"\x00" * 100, 400, "message_decode"),
        (sealed(created_ms=MS - 601_000), 400, "age_stale"),
        (sealed()[:-1] + b"\x00", 400, "body_digest"),
        (sealed(Identity.from_seed(b"\x07" * 32)), 403, "another key"),
    ],
    ids=["nothing", "noise", "old", "altered", "foreign"],
)
async def test_what_this_node_would_not_say_itself_is_refused(body: bytes, status: int, said: str) -> None:
    one, network = with_network()
    response = await publish(one, body)
    assert (response.status, said in decoded(response)["error"]) == (status, True)
    assert network.asked("publish") == []


@pytest.mark.parametrize("error", [ChildDied("gone"), Temporary("being rebuilt"), LocalError("refused")])
async def test_a_network_that_is_away_is_worth_another_try(error: LocalError) -> None:
    one, network = with_network()
    network.fail("publish", error)
    assert (await publish(one, sealed())).status == 503
    assert value(one.metrics, "gossip_published_total", result="failed") == 1


async def test_a_network_that_stays_away_is_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    one, network = with_network()
    network.gates["publish"] = trio.Event()
    assert (await publish(one, sealed())).status == 503


async def test_a_node_alone_publishes_nothing() -> None:
    one = api({name: said for name, said in STARTED.items() if name != "network"})
    assert (await publish(one, sealed())).status == 409


async def test_the_manifest_is_told_byte_for_byte() -> None:
    told = decoded(await ask(api(), "/v1/manifest"))["manifest"]
    assert Manifest.from_bytes(bytes.fromhex(told)).digest == MANIFEST.digest


PEER_ID = peer_id_of(OTHER.public_key)


async def test_the_operator_bans_and_unbans() -> None:
    one = api()
    assert (
        await ask(one, "/v1/ban", method="POST", peer_id=PEER_ID, for_s="60", reason="spam")
    ).status == 200
    (ban,) = decoded(await ask(one, "/v1/bans"))["bans"]
    assert (ban["peer_id"], ban["by"], ban["reason"], ban["left_s"]) == (PEER_ID, "operator", "spam", 60.0)
    assert (await ask(one, "/v1/unban", method="POST", peer_id=PEER_ID)).status == 200
    assert decoded(await ask(one, "/v1/bans"))["bans"] == []


@pytest.mark.parametrize(
    ("path", "query", "status", "text"),
    [
        ("/v1/ban", {}, 400, "peer id"),
        ("/v1/ban", {"peer_id": "\x1b[2J"}, 400, "peer id"),
        ("/v1/ban", {"peer_id": peer_id_of(ME.public_key)}, 409, "own id"),
        ("/v1/ban", {"peer_id": PEER_ID, "for_s": "0"}, 400, "for_s"),
        ("/v1/ban", {"peer_id": PEER_ID, "for_s": "-1"}, 400, "for_s"),
        ("/v1/ban", {"peer_id": PEER_ID, "for_s": "9" * 500}, 400, "for_s"),
        ("/v1/ban", {"peer_id": PEER_ID, "for_s": "²"}, 400, "for_s"),
        ("/v1/unban", {"peer_id": PEER_ID}, 404, "not banned"),
        ("/v1/unban", {"peer_id": "x"}, 400, "peer id"),
    ],
)
async def test_what_cannot_be_banned_is_told(
    path: str, query: dict[str, str], status: int, text: str
) -> None:
    one = api()
    response = await ask(one, path, method="POST", **query)
    assert response.status == status
    assert text in decoded(response)["error"]
    assert one.bans.listed() == []


async def test_a_ban_that_cannot_be_written_is_told_and_holds() -> None:
    one = api()

    def fail(content: bytes) -> None:
        raise DiskFull("no space")

    one.bans = Loops().bans(save=fail)
    response = await ask(one, "/v1/ban", method="POST", peer_id=PEER_ID)
    assert response.status == 500
    assert "no space" in decoded(response)["error"]
    assert one.bans.standing_of(PEER_ID) == "banned"


async def test_metrics_are_written_once_a_second_however_often_they_are_asked_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    one = api()
    first = (await ask(one, "/metrics")).body
    one.metrics.rounds.inc()
    assert (await ask(one, "/metrics")).body == first
    await trio.sleep(METRICS_AGE_S_MAX + 0.1)
    assert b"swarmd_train_rounds_total 1.0" in (await ask(one, "/metrics")).body
