"""Every problem comes when its cause does, is told by the metric, decides whether the node is healthy, and goes again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio.testing

from swarmd.clients.network import Outside
from swarmd.clients.policy import Saved, Updated
from swarmd.clients.update_stats import UpdateStats
from swarmd.errors import DiskFull, LocalError, StateError
from swarmd.files.datadir import DataDir
from swarmd.loops.pace import Pace
from swarmd.loops.progress import Progress
from swarmd.loops.record import Round
from swarmd.loops.shown import CanaryShown, NetworkShown
from swarmd.metrics import Metrics
from swarmd.metrics.labels import HEALTH_CODES, UNHEALTHY
from swarmd.node import health as module
from swarmd.node.health import CLOCK_S, LOOK_S, REFUSED_S, STALL_S_FIRST, STALL_S_MIN, Health
from tests.loops.fakes import a_round, network_stats, peer
from tests.loops.parts import value
from tests.node.test_status import FakeChild, with_peers


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def health_of(
    at: Progress,
    workers: Any = None,
    *,
    root: Path = Path("/tmp"),
    pace: Pace | None = None,
    clock: Any = None,
) -> Health:
    """Of a node with peers, whose workers are up."""
    workers = {"generation": FakeChild("up"), "scorer": FakeChild("up")} if workers is None else workers
    health = Health(at, workers, pace or Pace(1), Metrics(), DataDir(root), solo=False)
    health._now_s = clock or Clock()
    return health


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def at() -> Progress:
    progress = with_peers()
    progress.phase = "wait"
    return progress


@pytest.fixture
def health(at: Progress, clock: Clock, tmp_path: Path) -> Health:
    return health_of(at, root=tmp_path, clock=clock)


def codes(health: Health) -> list[str]:
    """After a look, and as the metrics say it too."""
    health.look()
    found = [problem.code for problem in health.problems]
    assert [code for code in HEALTH_CODES if value(health.metrics, "health", code=code)] == [
        code for code in HEALTH_CODES if code in found
    ]
    assert value(health.metrics, "healthy") == health.healthy == (not set(found) & set(UNHEALTHY))
    for problem in health.problems:
        assert problem.text.endswith(".")
        assert problem.fix
    return found


def passing(health: Health, clock: Clock, seconds: float, step_s: float = LOOK_S) -> list[str]:
    """What is found after so many seconds of looking."""
    end_s = clock.now_s + seconds
    found: list[str] = []
    while clock.now_s < end_s:
        clock.now_s += step_s
        found = codes(health)
    return found


def rounds(health: Health, at: Progress, clock: Clock, num: int, seconds: float) -> None:
    """Rounds of so many seconds, half of them waiting."""
    for _ in range(num):
        for phase in ("wait", "update"):
            at.phase = phase
            passing(health, clock, seconds / 2)
        at.round, at.policy_version = at.round + 1, at.policy_version + 1
        health.pace.saved_round = at.round


def test_a_node_that_works_is_healthy(health: Health, at: Progress, clock: Clock) -> None:
    rounds(health, at, clock, 30, 4)
    assert codes(health) == []
    assert value(health.metrics, "state_disk_free_bytes") > 0


@pytest.mark.parametrize("phase", ["wait", "update", "evaluate"])
def test_a_node_that_stands_still_is_stalled_within_a_minute(
    health: Health, at: Progress, clock: Clock, phase: str
) -> None:
    rounds(health, at, clock, 5, 4)
    at.phase = phase
    passing(health, clock, 4)
    at.phase = "wait" if phase != "wait" else "update"
    passing(health, clock, 4)
    at.phase = phase
    assert passing(health, clock, STALL_S_MIN) == []
    assert passing(health, clock, 60 - STALL_S_MIN) == ["stalled"]
    at.round += 1
    health.pace.saved_round = at.round
    assert codes(health) == []


def test_a_slow_node_has_its_own_measure(health: Health, at: Progress, clock: Clock) -> None:
    rounds(health, at, clock, 3, 120)
    at.phase = "wait"
    assert passing(health, clock, 590, 10) == []
    assert passing(health, clock, 30, 10) == ["stalled"]


def test_before_anything_is_known_a_phase_may_take_a_quarter_of_an_hour(health: Health, clock: Clock) -> None:
    assert passing(health, clock, STALL_S_FIRST, 10) == []
    assert passing(health, clock, 20, 10) == ["stalled"]


def test_a_daemon_that_was_stopped_has_not_stalled(health: Health, at: Progress, clock: Clock) -> None:
    rounds(health, at, clock, 5, 4)
    at.phase = "wait"
    passing(health, clock, 2)
    clock.now_s += 3600
    health.look(lag_s=3599)
    assert [problem.code for problem in health.problems] == ["loop_lag"]


@pytest.mark.parametrize("phase", ["starting", "idle"])
def test_a_node_that_starts_or_ends_does_not_stall(
    health: Health, at: Progress, clock: Clock, phase: str
) -> None:
    at.phase = phase
    assert passing(health, clock, 3 * STALL_S_FIRST, 30) == []


def test_a_child_that_is_not_there(health: Health) -> None:
    child: Any = health.workers["scorer"]
    child.up = False
    assert codes(health) == ["worker_restarting"]
    assert value(health.metrics, "ready") == 0
    child.up = True
    assert codes(health) == []
    assert value(health.metrics, "ready") == 1


def test_a_first_start_is_no_restart(health: Health) -> None:
    child: Any = health.workers["scorer"]
    child.info, child.up = None, False
    assert codes(health) == []


def test_a_child_that_does_not_answer(health: Health) -> None:
    child: Any = health.workers["scorer"]
    child.silent_s = 14.0
    assert codes(health) == []
    child.silent_s = 16.0
    assert codes(health) == ["worker_silent"]


def test_a_child_that_dies_again_and_again(health: Health, clock: Clock) -> None:
    child: Any = health.workers["scorer"]
    assert codes(health) == []
    for num in (1, 2):
        child.num_restarts = num
        assert passing(health, clock, 100, 10) == []
    child.num_restarts = 3
    assert codes(health) == ["worker_unstable"]
    assert passing(health, clock, 700, 10) == []


def test_rounds_without_a_checkpoint(health: Health, at: Progress, clock: Clock) -> None:
    rounds(health, at, clock, 3, 4)
    at.round += 5
    assert codes(health) == []
    at.round += 1
    assert codes(health) == ["unsaved"]
    health.pace.saved_round = at.round
    assert codes(health) == []


def test_minutes_without_a_checkpoint(at: Progress, clock: Clock, tmp_path: Path) -> None:
    health = health_of(at, root=tmp_path, clock=clock, pace=Pace(1, 100.0))
    for _ in range(29):
        at.round += 1
        assert passing(health, clock, 10) == []
    at.round += 1
    assert passing(health, clock, 20) == ["unsaved"]


@pytest.mark.parametrize(
    ("free", "flags", "code"), [(1, 0, "disk_low"), (2**40, 1, "disk_read_only"), (None, 0, "disk_failing")]
)
def test_disks(
    health: Health, monkeypatch: pytest.MonkeyPatch, free: int | None, flags: int, code: str
) -> None:
    def statvfs(path: Path) -> Any:
        if free is None:
            raise OSError(5, "Input/output error")
        return SimpleNamespace(f_bavail=free, f_frsize=1, f_flag=flags)

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "statvfs", statvfs)
        assert codes(health) == [code]
    assert codes(health) == []


def hear(at: Progress, **more: int) -> None:
    """Messages with these verdicts, beside those so far."""
    stats = at.shown.network.stats or network_stats(verdicts={})
    verdicts = {rule: stats.verdicts.get(rule, 0) + more.get(rule, 0) for rule in {*stats.verdicts, *more}}
    at.shown.network = NetworkShown([peer("a")], stats._replace(verdicts=verdicts))


@pytest.mark.parametrize(("rule", "way"), [("age_future", "behind"), ("age_stale", "ahead")])
def test_a_clock_that_is_off_is_seen_within_a_minute(
    health: Health, at: Progress, clock: Clock, rule: str, way: str
) -> None:
    rounds(health, at, clock, 20, 4)
    for _ in range(20):
        at.round, health.pace.saved_round = at.round + 1, at.round + 1
        hear(at, accepted=1, **{rule: 0})
        assert passing(health, clock, 3) == []
    for _ in range(19):
        at.round, health.pace.saved_round = at.round + 1, at.round + 1
        hear(at, **{rule: 1})
        passing(health, clock, 3)
    assert codes(health) == ["clock_off"]
    assert way in health.problems[0].text
    for _ in range(int(CLOCK_S / 3)):
        at.round, health.pace.saved_round = at.round + 1, at.round + 1
        hear(at, accepted=1)
        passing(health, clock, 3)
    assert codes(health) == []


def test_a_few_late_messages_are_nobodys_clock(health: Health, at: Progress, clock: Clock) -> None:
    hear(at, accepted=0, age_stale=0)
    codes(health)
    hear(at, accepted=6, age_stale=9)
    assert passing(health, clock, 5) == []


def test_messages_of_which_none_is_accepted(health: Health, at: Progress, clock: Clock) -> None:
    hear(at, signature=0)
    codes(health)
    for _ in range(50):
        at.round, health.pace.saved_round = at.round + 1, at.round + 1
        hear(at, signature=1)
        found = passing(health, clock, REFUSED_S / 50)
    assert found == ["nothing_accepted"]
    hear(at, accepted=1)
    assert codes(health) == []


def test_a_network_process_that_begins_anew_counts_from_nothing(
    health: Health, at: Progress, clock: Clock
) -> None:
    hear(at, accepted=1000, age_future=40)
    codes(health)
    clock.now_s += 1
    at.shown.network = NetworkShown([peer("a")], network_stats(verdicts={"accepted": 1}))
    assert codes(health) == []


async def test_a_busy_loop(health: Health, clock: Clock) -> None:
    health.look(lag_s=0.7)
    assert [problem.code for problem in health.problems] == ["loop_lag"]
    assert health.healthy
    assert passing(health, clock, 61) == []


async def test_lag_is_what_a_timer_was_late(
    autojump_clock: trio.testing.MockClock, at: Progress, tmp_path: Path
) -> None:
    health = health_of(at, root=tmp_path, clock=trio.current_time)
    with trio.move_on_after(10.5):
        await health.run()
    assert value(health.metrics, "loop_lag_seconds_count") == 10
    assert value(health.metrics, "loop_lag_seconds_bucket", le="0.001") == 10


def trained(**stats: Any) -> Round:
    return a_round(updated=Updated(1, Saved(), UpdateStats(**stats)))


def test_a_slow_update_is_told_until_a_fast_one(health: Health, at: Progress) -> None:
    at.history.rounds.append(trained(num_steps=1, slow_cost=2.34, self_check="softcap"))
    at.history.rounds.append(trained(skipped="zero_advantage"))
    assert codes(health) == ["slow_update"]
    assert "2.3 times the tokens go through the model: softcap" in health.problems[0].text
    at.history.rounds.append(trained(num_steps=1))
    assert codes(health) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DiskFull("disk is full", fix="make room"), "disk_low"),
        (StateError("not ours", "why"), "checkpoint_failing"),
    ],
)
def test_a_checkpoint_that_fails_is_told(health: Health, at: Progress, error: LocalError, code: str) -> None:
    at.shown.checkpoint_error = error
    assert codes(health) == [code]
    assert error.what in health.problems[0].text


@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        ("generate_error", LocalError("the scorer is ill"), "generation_failing"),
        ("buffer_error", StateError("disk I/O error", "why"), "buffer_failing"),
        ("canary", CanaryShown(fell="The policy fell."), "canary_fell"),
        ("canary", CanaryShown(kept_out="Others are kept out."), "others_kept_out"),
        ("network", NetworkShown(()), "no_peers"),
        (
            "network",
            NetworkShown([peer("p")], network_stats(bootstrap={"/ip4/1.2.3.4/tcp/1": "wrong_peer_id"})),
            "bootstrap_wrong_peer",
        ),
        (
            "network",
            NetworkShown([peer("p")], network_stats(outside=Outside(False, ("1.2.3.4",), 0, 2))),
            "not_reachable",
        ),
    ],
)
def test_what_the_loops_tell_is_found(health: Health, at: Progress, name: str, state: Any, code: str) -> None:
    before = getattr(at.shown, name)
    setattr(at.shown, name, state)
    assert codes(health) == [code]
    setattr(at.shown, name, before)
    assert codes(health) == []


def test_a_node_alone_needs_no_peers(at: Progress, tmp_path: Path) -> None:
    health = health_of(at, root=tmp_path)
    at.shown.network = NetworkShown(())
    health.solo = True
    assert codes(health) == []


def test_every_code_has_a_test() -> None:
    text = Path(__file__).read_text()
    assert [code for code in HEALTH_CODES if f'"{code}"' not in text] == []


def test_what_begins_is_logged_once_and_what_ends_too(
    health: Health, at: Progress, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    at.shown.generate_error = LocalError("the scorer is ill")
    for _ in range(5):
        health.look()
    at.shown.generate_error = None
    health.look()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[0].startswith("generation_failing: The last generation was lost")
    assert caplog.messages[1] == "generation_failing is over"


def test_the_page_has_every_code_in_its_table() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/health.md").read_text()
    bad, others = page.split("## It works")
    listed = [
        [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")] for part in (bad, others)
    ]
    assert listed == [list(UNHEALTHY), [code for code in HEALTH_CODES if code not in UNHEALTHY]]
