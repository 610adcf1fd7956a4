"""The listeners: where they are, whom they keep waiting, and what a crowd or a failing accept costs."""

import errno
import os
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from swarmd.control.http import End, Request, Response, Service
from swarmd.control.server import ACCEPT_PAUSE_S, PATIENCE_S, open_tcp, open_unix, serve
from swarmd.errors import PortTaken, StateError
from swarmd.metrics.labels import CONTROL_ENDS
from tests.control.served import ROUTER, all_of, answer_to, request, served, status_of


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/status/", 404),
        ("GET", "/v1/../v1/status", 404),
        ("POST", "/v1/nothing", 404),
        ("POST", "/v1/status", 405),
        ("GET", "/v1/publish", 405),
        ("DELETE", "/v1/publish", 405),
        ("OPTIONS", "/v1/status", 405),
        ("TRACE", "/v1/status", 405),
    ],
)
async def test_what_is_not_there_is_told_from_what_is_not_allowed(
    method: str, target: str, status: int
) -> None:
    answer, _ = await answer_to(ROUTER, request(target, method=method))
    assert status_of(answer) == status


async def test_the_socket_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "control.sock"
    async with await open_unix(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_the_umask_is_as_before(tmp_path: Path) -> None:
    before = os.umask(0o022)
    async with await open_unix(tmp_path / "control.sock"):
        assert os.umask(before) == 0o022


async def test_what_a_crash_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    async with await open_unix(path):
        assert path.is_socket()


async def test_a_directory_that_others_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StateError, match="written by others"):
        await open_unix(tmp_path / "control.sock")


async def test_a_taken_port_gives_way_unless_it_was_asked_for() -> None:
    taken, port = await open_tcp("127.0.0.1", 0, explicit=False)
    async with taken:
        other, other_port = await open_tcp("127.0.0.1", port, explicit=False)
        await other.aclose()
        assert other_port not in (0, port)
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}") as caught:
            await open_tcp("127.0.0.1", port, explicit=True)
        assert caught.value.exit_code == 11


async def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(PortTaken):
        await open_tcp("203.0.113.1", 0, explicit=True)


def test_every_end_is_a_label() -> None:
    assert tuple(End) == CONTROL_ENDS


async def test_the_client_that_waited_longest_makes_room(mock_clock: trio.testing.MockClock) -> None:
    async with served(ROUTER, connections_max=3) as one:
        silent = [one.connect() for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        assert status_of(await one.ask(request("/v1/status"))) == 200
        assert await silent[0].receive_some(1) == b""
        await silent[1].send_all(request("/v1/status"))
        assert status_of(await all_of(silent[1])) == 200
    assert one.ends == [End.EVICTED, End.ANSWERED, End.ANSWERED]


async def test_a_crowd_of_silent_clients_keeps_nobody_from_an_answer(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with served(ROUTER, connections_max=4) as one:
        crowd = []
        for _ in range(100):
            crowd += [one.connect() for _ in range(5)]
            assert status_of(await one.ask(request("/v1/status"))) == 200
    assert one.ends.count(End.ANSWERED) == 100
    assert one.ends.count(End.EVICTED) == 500 - 3


async def test_places_are_given_back() -> None:
    async with served(ROUTER, connections_max=2) as one:
        for _ in range(10):
            assert status_of(await one.ask(request("/v1/status"))) == 200
    assert one.ends == [End.ANSWERED] * 10


class Slow:
    """A handler that is at work until it is let go."""

    def __init__(self) -> None:
        self.go = trio.Event()

    async def __call__(self, request: Request) -> Response:
        await self.go.wait()
        return Response(b"done")


async def test_whom_we_are_at_work_for_is_neither_evicted_nor_late(
    autojump_clock: trio.testing.MockClock,
) -> None:
    slow = Slow()
    async with served(slow, connections_max=2) as one:
        served_first, silent = one.connect(), one.connect()
        await served_first.send_all(request("/"))
        await trio.sleep(PATIENCE_S / 2)
        newer = one.connect()
        assert await silent.receive_some(1) == b""
        await newer.send_all(request("/"))
        await trio.sleep(10 * PATIENCE_S)
        slow.go.set()
        assert (await all_of(served_first)).endswith(b"done")
        assert (await all_of(newer)).endswith(b"done")
    assert one.ends == [End.EVICTED, End.ANSWERED, End.ANSWERED]


async def test_when_we_are_at_work_for_all_a_newcomer_is_closed_unread(
    mock_clock: trio.testing.MockClock,
) -> None:
    slow = Slow()
    async with served(slow, connections_max=1) as one:
        first = one.connect()
        await first.send_all(request("/"))
        await trio.testing.wait_all_tasks_blocked()
        assert await one.ask(request("/")) == b""
        slow.go.set()
        assert (await all_of(first)).endswith(b"done")
    assert one.ends == [End.CROWDED, End.ANSWERED]


@pytest.mark.parametrize(
    "number",
    [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EPERM, errno.EIO],
)
async def test_an_accept_that_fails_ends_nothing_and_after_a_pause_the_silent_leave(
    number: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with served(ROUTER) as one:
        silent, speaks = one.connect(), one.connect()
        await trio.testing.wait_all_tasks_blocked()
        one.listener.arrive(OSError(number, "no more"))
        await speaks.send_all(request("/v1/status"))
        assert status_of(await all_of(speaks)) == 200
        assert await silent.receive_some(1) == b""
        assert trio.current_time() == ACCEPT_PAUSE_S
        assert status_of(await one.ask(request("/v1/status"))) == 200
    assert one.ends == [End.UNACCEPTED, End.ANSWERED, End.EVICTED, End.ANSWERED]


async def test_a_process_without_descriptors_answers() -> None:
    # given: one more descriptor, a silent client that gets it, and two that would need another
    listener, port = await open_tcp("127.0.0.1", 0, explicit=True)
    clients = [trio.socket.socket() for _ in range(4)]
    ends = list[End]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, listener, Service(ROUTER), ends.append)
        with one_more_descriptor():
            for client in clients:
                await client.connect(("127.0.0.1", port))
            # when
            await clients[3].send(request("/v1/status"))
            # then
            assert status_of(await clients[3].recv(1000)) == 200
        nursery.cancel_scope.cancel()
    assert ends.count(End.EVICTED) == 3
    assert End.UNACCEPTED in ends
    for client in clients:
        client.close()


@contextmanager
def one_more_descriptor() -> Iterator[None]:
    """This process can open one more file or socket."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_stopping_closes_every_connection() -> None:
    async with served(Service(Slow())) as one:
        waiting, silent = one.connect(), one.connect()
        await waiting.send_all(request("/"))
        await trio.testing.wait_all_tasks_blocked()
    assert [await stream.receive_some(1) for stream in (waiting, silent)] == [b"", b""]
    assert one.ends == []
