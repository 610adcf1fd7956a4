"""The supervisor with real child processes: calls, failures, death, hanging, orphans."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from swarmd.errors import ChildDied, LocalError, ModelUnavailable
from swarmd.processes import supervise
from swarmd.processes.supervise import Child, ChildSpec

SERVICES = "tests.processes.services"


@asynccontextmanager
async def running(
    tmp_path: Path,
    service: str = "Blocking",
    *,
    hears: dict[str, Any] | None = None,
    **args: Any,
) -> AsyncIterator[Child]:
    spec = ChildSpec(
        name="test", service=f"{SERVICES}:{service}", args=lambda: args, log_path=tmp_path / "test.log"
    )
    child = Child(spec, **(hears or {}))
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            await nursery.start(child.run)
            yield child
            nursery.cancel_scope.cancel()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> None:
    with trio.fail_after(60):
        while alive(pid):
            await trio.sleep(0.05)


async def test_a_call_returns_what_the_service_returned(tmp_path: Path) -> None:
    async with running(tmp_path) as child:
        assert await child.call("echo", value=[1, "a", b"b", None, {"k": 1.5}]) == [
            1,
            "a",
            b"b",
            None,
            {"k": 1.5},
        ]


async def test_a_child_holds_its_parents_lock_as_long_as_it_lives(tmp_path: Path) -> None:
    file = (tmp_path / "lock").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    spec = ChildSpec("test", f"{SERVICES}:Blocking", dict, tmp_path / "test.log", held=(file.fileno(),))
    child = Child(spec)
    with trio.fail_after(120), (tmp_path / "lock").open() as other:
        async with trio.open_nursery() as nursery:
            await nursery.start(child.run)
            file.close()
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            nursery.cancel_scope.cancel()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_an_expected_failure_keeps_its_kind_and_text(tmp_path: Path) -> None:
    async with running(tmp_path) as child:
        with pytest.raises(ModelUnavailable) as caught:
            await child.call("expected")
        assert (caught.value.what, caught.value.why, caught.value.fix) == ("gone", "why", "fix")


async def test_an_unexpected_failure_carries_the_childs_traceback(tmp_path: Path) -> None:
    async with running(tmp_path) as child:
        with pytest.raises(LocalError, match="ZeroDivisionError") as caught:
            await child.call("boom")
        assert "in boom" in caught.value.why


async def test_only_the_named_operations_can_be_called(tmp_path: Path) -> None:
    async with running(tmp_path) as child:
        with pytest.raises(Exception, match="no operation '__init__'"):
            await child.call("__init__")


async def test_a_failing_first_start_ends_the_node_with_its_reason(tmp_path: Path) -> None:
    with pytest.RaisesGroup(pytest.RaisesGroup(ModelUnavailable)):
        async with running(tmp_path, fail_start=True):
            pass


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
async def test_a_killed_child_is_replaced_and_later_calls_reach_the_new_one(
    tmp_path: Path, sign: int
) -> None:
    async with running(tmp_path) as child:
        before = child.info["pid"]
        os.kill(before, sign)
        await gone(before)
        with trio.fail_after(60):
            while child.info["pid"] == before:
                await trio.sleep(0.05)
        assert await child.call("echo", value=1) == 1
        assert child.num_restarts == 1


@pytest.mark.parametrize(("sign", "reason"), [(signal.SIGKILL, "killed"), (signal.SIGTERM, "crash")])
async def test_a_kill_from_outside_is_told_from_a_crash_before_the_next_start(
    tmp_path: Path, sign: int, reason: str
) -> None:
    reasons: list[tuple[str, int]] = []
    async with running(
        tmp_path, hears={"on_restart": lambda why: reasons.append((why, child.info["pid"]))}
    ) as child:
        before = child.info["pid"]
        os.kill(before, sign)
        with trio.fail_after(60):
            while child.info["pid"] == before:
                await trio.sleep(0.05)
        assert await child.call("echo", value=1) == 1
    assert reasons == [(reason, before)]


async def test_our_own_kill_of_a_child_that_hangs_is_not_somebody_elses(tmp_path: Path) -> None:
    reasons: list[str] = []
    async with running(tmp_path, hears={"on_restart": reasons.append}) as child:
        with pytest.raises(ChildDied):
            await child.call("stall", within_s=0.3)
        assert await child.call("echo", value=2) == 2
    assert reasons == ["hang"]


async def test_a_call_under_way_when_the_child_dies_raises(tmp_path: Path) -> None:
    async with running(tmp_path) as child:
        with pytest.raises(ChildDied):
            await child.call("die")


async def test_an_operation_served_beside_the_others_holds_up_none_of_them(tmp_path: Path) -> None:
    async with running(tmp_path, "TwoHanded") as child, trio.open_nursery() as nursery:
        nursery.start_soon(partial(child.call, "stall"))
        assert [await child.call("echo", value=number) for number in range(3)] == [0, 1, 2]
        with pytest.raises(LocalError, match="ZeroDivisionError"):
            await child.call("boom")
        nursery.cancel_scope.cancel()


async def test_a_child_that_hangs_is_killed_and_replaced(tmp_path: Path) -> None:
    async with running(tmp_path) as child:
        before = child.info["pid"]
        with pytest.raises(ChildDied, match="within"):
            await child.call("stall", within_s=0.3)
        assert await child.call("echo", value=2) == 2
        assert not alive(before)


async def test_a_stopped_child_that_takes_no_frame_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "SEND_S_MAX", 0.3)
    async with running(tmp_path) as child:
        before = child.info["pid"]
        os.kill(before, signal.SIGSTOP)
        with pytest.raises(ChildDied):  # more than fits a socket's buffer
            await child.call("echo", value=b"x" * 2**23)
        assert await child.call("echo", value=2) == 2
        assert not alive(before)


@pytest.mark.parametrize("service", ["Blocking", "Asynchronous"])
async def test_a_stopped_child_that_nobody_asks_is_seen_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    monkeypatch.setattr(supervise, "PING_EVERY_S", 0.05)
    monkeypatch.setattr(supervise, "PING_S_MAX", 2.0)
    monkeypatch.setattr(supervise, "PING_STEP_S", 0.1)
    reasons: list[str] = []
    async with running(tmp_path, service, hears={"on_restart": reasons.append}) as child:
        before = child.info["pid"]
        os.kill(before, signal.SIGSTOP)
        while child.silent_s == 0:
            await trio.sleep(0.01)
        while not reasons:
            await trio.sleep(0.01)
        await child.wait_ready()
        assert child.pid != before
        assert not alive(before)
    assert reasons[0] == "hang"


async def test_a_daemon_that_was_stopped_itself_gives_up_on_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "PING_EVERY_S", 0.05)
    monkeypatch.setattr(supervise, "PING_S_MAX", 2.0)
    monkeypatch.setattr(supervise, "PING_STEP_S", 0.1)
    reasons: list[str] = []
    async with running(tmp_path, hears={"on_restart": reasons.append}) as child:
        pid = child.info["pid"]
        os.kill(pid, signal.SIGSTOP)
        while child.silent_s == 0:
            await trio.sleep(0.01)
        time.sleep(3)
        os.kill(pid, signal.SIGCONT)
        while child.silent_s:
            await trio.sleep(0.01)
        assert child.pid == pid
    assert reasons == []


async def test_a_child_that_works_for_long_answers_pings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "PING_EVERY_S", 0.01)
    num_pings = 0
    call = supervise._Connection.call

    async def counted(connection: Any, op: str, args: Any) -> object:
        nonlocal num_pings
        answer = await call(connection, op, args)
        num_pings += op == "ping"
        return answer

    monkeypatch.setattr(supervise._Connection, "call", counted)
    async with running(tmp_path) as child, trio.open_nursery() as nursery:
        nursery.start_soon(partial(child.call, "stall"))
        await trio.sleep(0.1)
        already = num_pings
        while num_pings < already + 5:
            await trio.sleep(0.01)
        assert child.num_restarts == 0
        nursery.cancel_scope.cancel()


async def test_a_child_that_writes_no_frames_is_replaced_and_the_daemon_lives(tmp_path: Path) -> None:
    async with running(tmp_path, "Babbling") as child:
        with pytest.raises(ChildDied):
            await child.call("babble")
        assert await child.call("echo", value=2) == 2


async def test_a_child_lost_between_its_return_and_the_wake_of_who_waits_is_waited_for_again(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as child:
        connection, ready = child._connection, child._ready
        child._lost()
        async with trio.open_nursery() as nursery:
            results: list[int] = []

            async def ask() -> None:
                results.append(await child.call("echo", value=3))

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            child._ready.set()  # a replacement came, and is gone before anyone has run
            child._ready = trio.Event()
            await trio.testing.wait_all_tasks_blocked()
            assert results == []
            child._connection, _ = connection, child._ready.set()
        assert results == [3]
        assert ready.is_set()


async def test_a_replacement_that_cannot_be_spawned_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = supervise.spawn, [BlockingIOError("no more processes"), OSError(28, "No space left")]
    reasons: list[str] = []

    async def spawn(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return await real(*args)

    async with running(tmp_path, hears={"on_restart": reasons.append}) as child:
        monkeypatch.setattr(supervise, "spawn", spawn)
        with pytest.raises(ChildDied):
            await child.call("die")
        assert await child.call("echo", value=4) == 4
        assert (failures, reasons) == ([], ["crash", "spawn", "spawn"])


async def test_a_first_child_that_cannot_be_spawned_ends_the_node_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def spawn(*args: Any) -> Any:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(supervise, "spawn", spawn)
    with pytest.RaisesGroup(pytest.RaisesGroup(LocalError)):
        async with running(tmp_path):
            pass


async def test_events_arrive_in_order(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    async with running(
        tmp_path, hears={"on_event": lambda name, fields: seen.append((name, *fields))}
    ) as child:
        await child.call("shout", num=100)
    assert seen == [("Shout", number) for number in range(100)]


async def test_an_asynchronous_service_answers_while_another_call_waits(tmp_path: Path) -> None:
    async with running(tmp_path, "Asynchronous") as child, trio.open_nursery() as nursery:
        results: list[str] = []

        async def hold() -> None:
            results.append(await child.call("hold"))

        nursery.start_soon(hold)
        await child.call("release")
        with trio.fail_after(60):
            while not results:
                await trio.sleep(0.01)
    assert results == ["held"]


async def test_what_an_asynchronous_service_started_with_is_left_out_of_searches_for_cycles(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, "Asynchronous") as child:
        assert await child.call("num_frozen") > 10_000


async def test_events_past_the_bound_drop_the_oldest_and_are_counted(tmp_path: Path) -> None:
    seen: list[int] = []
    dropped: list[int] = []
    hears = {"on_event": lambda name, fields: seen.append(fields[0]), "on_dropped": dropped.append}
    async with running(tmp_path, "Asynchronous", hears=hears) as child:
        await child.call("shout", num=2000)
        while sum(dropped) + len(seen) < 2000:
            await trio.sleep(0.01)
    assert dropped
    assert seen[-1] == 1999


async def test_an_event_that_may_not_be_dropped_never_is(tmp_path: Path) -> None:
    seen: list[int] = []
    dropped: list[int] = []
    hears = {"on_event": lambda name, fields: seen.append(fields[0]), "on_dropped": dropped.append}
    async with running(tmp_path, "Asynchronous", hears=hears) as child:
        await child.call("whisper", num=2000)
        while len(seen) < 2000:
            await trio.sleep(0.01)
    assert (seen, dropped) == (list(range(2000)), [])


PARENT = """
import sys, trio
from pathlib import Path
from swarmd.processes import supervise
from swarmd.processes.supervise import Child, ChildSpec
async def main():
    child = Child(ChildSpec("test", "tests.processes.services:Blocking", dict, Path(sys.argv[1])))
    async with trio.open_nursery() as nursery:
        info = await nursery.start(child.run)
        print(info["pid"], flush=True)
        await child.call("stall")
trio.run(main)
"""


async def test_no_child_outlives_a_parent_killed_by_sigkill(tmp_path: Path) -> None:
    # given a parent whose child is busy and does not look at its socket
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(await trio.to_thread.run_sync(parent.stdout.readline))
    # when
    parent.kill()
    parent.wait()
    # then
    await gone(pid)
