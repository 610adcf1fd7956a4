"""The API: answers from the first moment of a start, and nothing a client sends can end the node."""

import json
from typing import Any

import pytest

from swarmd.api import Api
from swarmd.control.http import Request, Response
from swarmd.metrics import Metrics
from tests.loops.fakes import MS
from tests.loops.test_status import ABOUT, progress, record, with_peers

OWN = {"pid", "started_ms", "addresses", "num_parameters", "device", "engine", "sandbox"}
FACTS = {key: value for key, value in vars(ABOUT).items() if key not in OWN}
STARTED = {
    "generation": {"num_parameters": 1000, "device": "cpu", "engine": "vllm", "engine_version": "0.32.0"},
    "scorer": {"sandbox": "full"},
    "network": {"addresses": ["/ip4/127.0.0.1/tcp/1"]},
}


class FakeChild:
    """What the API reads of a supervised child."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info, self.up, self.pid, self.num_restarts = info, bool(info), 2, 0


def api(info: dict[str, dict[str, Any]] = STARTED, at: Any = None) -> Api:
    children: Any = {name: FakeChild(said) for name, said in info.items()}
    return Api(FACTS, children, at or with_peers(), Metrics(), lambda: MS)


async def ask(one: Api, path: str, *, method: str = "GET", **query: str) -> Response:
    return await one.operator_routes()[method, path](Request(method, path, query, "localhost"))


def decoded(response: Response) -> Any:
    return json.loads(response.body)


@pytest.mark.parametrize("path", ["/v1/status", "/v1/peers", "/v1/id", "/v1/rounds", "/metrics", "/healthz"])
@pytest.mark.parametrize("info", [STARTED, {name: {} for name in STARTED}], ids=["started", "starting"])
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


@pytest.mark.parametrize(("info", "status"), [(STARTED, 200), ({**STARTED, "scorer": {}}, 503)])
async def test_a_node_is_ready_when_every_child_is_up(info: dict[str, Any], status: int) -> None:
    response = await ask(api(info), "/readyz")
    assert response.status == status
    assert (b"scorer" in response.body) is (status == 503)


@pytest.mark.parametrize(("last", "num"), [("0", 0), ("2", 2), ("99999999", 5), ("007", 5)])
async def test_the_last_rounds(last: str, num: int) -> None:
    at = with_peers()
    at.rounds.extend(record(round=number) for number in range(5))
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
    at.evaluations.append({"round": 3, "mean": 0.5})
    assert decoded(await ask(api(at=at), "/v1/rounds"))["evaluations"] == [{"round": 3, "mean": 0.5}]
