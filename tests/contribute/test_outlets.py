"""The two ways out ask what the daemon and the network process answer."""

from pathlib import Path
from typing import Any

import pytest

from swarmd.clients.network import Network
from swarmd.contribute.outlets import DaemonOutlet, NetworkOutlet
from swarmd.contribute.send import Reach
from swarmd.errors import ChildDied, NotRunning, SwarmdError, Temporary
from tests.cli.fake_daemon import fake_daemon
from tests.loops.fakes import FakeNetwork


async def test_a_network_process_of_our_own() -> None:
    network = FakeNetwork(num_peers=3)
    outlet = NetworkOutlet(Network(network))
    assert await outlet.reach() == Reach(3, 3)
    assert await outlet.publish(b"message") == Reach(3, 3)
    assert network.asked("publish") == [{"data": b"message"}]


async def test_its_death_is_told() -> None:
    network = FakeNetwork()
    network.fail("publish", ChildDied("gone"))
    with pytest.raises(ChildDied):
        await NetworkOutlet(Network(network)).publish(b"message")


@pytest.mark.parametrize(
    ("stats", "reach"),
    [({}, Reach(0, 0)), ({"mesh_peers": 1, "subscribers": 2, "peers": 3}, Reach(1, 2))],
    ids=["starting", "running"],
)
async def test_the_reach_of_a_node(tmp_path: Path, stats: dict[str, int], reach: Reach) -> None:
    with fake_daemon(tmp_path, {"GET /v1/status": (200, {"network": {"stats": stats}})}):
        assert await DaemonOutlet(tmp_path / "control.sock").reach() == reach


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((503, {"error": "being replaced"}), Temporary),
        ((400, {"error": "refused by rule age_stale"}), SwarmdError),
    ],
)
async def test_a_node_that_cannot_now_is_told_from_one_that_will_not(
    tmp_path: Path, answer: Any, kind: type[SwarmdError]
) -> None:
    with fake_daemon(tmp_path, {"POST /v1/publish": answer}), pytest.raises(SwarmdError) as caught:
        await DaemonOutlet(tmp_path / "control.sock").publish(b"message")
    assert type(caught.value) is kind


async def test_a_node_that_ended_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        await DaemonOutlet(tmp_path / "control.sock").publish(b"message")
