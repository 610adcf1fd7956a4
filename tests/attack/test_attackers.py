"""Attackers that do not attack are found out."""

from collections import Counter
from pathlib import Path

import pytest

from swarmd.experiment.swarms.reaper import Reaper
from tests.attack import attackers as module
from tests.attack.attackers import Attackers, Scene, reached


@pytest.mark.parametrize(
    "counted",
    [{}, {"sent": 0}, {"dials": 9, "refused": 9}, {"rollouts": 3}, {"held": -1}],
)
def test_who_only_tries_reaches_nobody(counted: dict[str, int]) -> None:
    assert not reached(counted)


@pytest.mark.parametrize("key", ["sent", "held", "opened", "dialled"])
def test_who_sends_or_holds_reaches_somebody(key: str) -> None:
    assert reached(Counter({key: 1}))


def test_an_attacker_whose_process_ends_is_dead_and_idle(tmp_path: Path) -> None:
    # given: no such attack, so the process ends with an error
    scene = Scene(tmp_path / "no-manifest.toml", [], tmp_path, 1, 0)
    with Reaper() as reaper, Attackers([["no-such"]], scene, reaper, tmp_path / "log") as attackers:
        # when
        begun = attackers.wait_until_begun()
        # then
        assert not begun
        assert attackers.idle() == ["no-such"]
        assert attackers.dead() == ["no-such (exit 1)"]


def test_an_attacker_that_reaches_nobody_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setattr(module, "BEGIN_S", 0.0)
    nobody = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
    scene = Scene("tiny", [nobody], tmp_path, 1, 0)
    with Reaper() as reaper, Attackers([["bombs"]], scene, reaper, tmp_path / "log") as attackers:
        # then
        assert not attackers.wait_until_begun()
        assert attackers.dead() == []
