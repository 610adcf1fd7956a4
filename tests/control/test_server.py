"""The control interface: what it answers, whom it does not, and what becomes of clients that misbehave."""

import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from swarmd.control.http import (
    HEADERS_BYTES_MAX,
    IDLE_S,
    READ_BYTES,
    Handler,
    Request,
    Response,
    as_json,
    serve_connection,
)
from swarmd.control.server import Routes, open_tcp, open_unix, router, serve
from swarmd.errors import PortTaken, StateError


async def echo(request: Request) -> Response:
    return as_json({"path": request.path, "query": dict(request.query)})


ROUTES: Routes = {("GET", "/v1/status"): echo, ("POST", "/v1/stop"): echo}


@asynccontextmanager
async def connected(handler: Handler, body_bytes_max: int = 0) -> AsyncIterator[trio.abc.Stream]:
    """The client's end of a connection that is being served."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_connection, theirs, handler, body_bytes_max=body_bytes_max))
        yield ours
        nursery.cancel_scope.cancel()


async def exchange(handler: Handler, request: bytes, body_bytes_max: int = 0) -> bytes:
    """Everything that comes back until the server closes or waits for more."""
    async with connected(handler, body_bytes_max) as stream:
        await stream.send_all(request)
        await trio.testing.wait_all_tasks_blocked()
        return bytes(await stream.receive_some(100_000))


def request(target: str, *, method: str = "GET", host: str = "localhost") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_a_known_path_is_answered_with_its_query() -> None:
    answer = await exchange(router(ROUTES), request("/v1/status?last=3&a=%20b"))
    head, body = answer.split(b"\r\n\r\n")
    assert status_of(answer) == 200
    assert json.loads(body) == {"path": "/v1/status", "query": {"last": "3", "a": " b"}}
    assert b"\r\nX-Content-Type-Options: nosniff" in head


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/status/", 404),
        ("GET", "/v1/../v1/status", 404),
        ("POST", "/v1/nothing", 404),
        ("POST", "/v1/status", 405),
        ("GET", "/v1/stop", 405),
        ("DELETE", "/v1/stop", 405),
    ],
)
async def test_what_is_not_there_is_told_from_what_is_not_allowed(
    method: str, target: str, status: int
) -> None:
    assert status_of(await exchange(router(ROUTES), request(target, method=method))) == status


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9810", "127.0.0.1", "localhost:9810", "localhost", "[::1]:9810", "[::1]", "10.2.3.4", "node", "node:9810"],
)  # fmt: skip
async def test_hosts_that_are_ours(host: str) -> None:
    handler = router(ROUTES, hosts=frozenset({"node"}))
    assert status_of(await exchange(handler, request("/v1/status", host=host))) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9810", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:1:2", "", "1..2"],
)  # fmt: skip
async def test_a_rebound_name_is_refused(host: str) -> None:
    handler = router(ROUTES, hosts=frozenset({"node"}))
    assert status_of(await exchange(handler, request("/v1/status", host=host))) == 421


async def test_the_socket_does_not_care_for_hosts() -> None:
    assert status_of(await exchange(router(ROUTES), request("/v1/status", host="evil.example"))) == 200


async def test_one_connection_takes_many_requests() -> None:
    async with connected(router(ROUTES)) as stream:
        for number in range(3):
            await stream.send_all(request(f"/v1/status?n={number}"))
            await trio.testing.wait_all_tasks_blocked()
            assert f'"n": "{number}"'.encode() in await stream.receive_some(10_000)


async def test_a_body_nobody_asked_for_is_passed_over() -> None:
    posted = b"POST /v1/stop HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + request("/v1/status")
    answer = await exchange(router(ROUTES), posted)
    assert answer.count(b"HTTP/1.1 200") == 2


async def length(request: Request) -> Response:
    return as_json({"length": len(request.body)})


TAKING: Routes = {("POST", "/v1/publish"): length, ("GET", "/v1/status"): echo}


def posted(body: bytes) -> bytes:
    return b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("size", [0, 1, READ_BYTES, 3 * READ_BYTES + 1])
async def test_a_body_is_read_whole_and_the_connection_goes_on(size: int) -> None:
    sent = posted(b"x" * size) + request("/v1/status")
    answer = await exchange(router(TAKING), sent, 3 * READ_BYTES + 1)
    assert b'{"length": %d}' % size in answer
    assert answer.count(b"HTTP/1.1 200") == 2


async def test_a_longer_body_is_refused_unread_and_the_connection_closed() -> None:
    called = list[Request]()

    async def note(request: Request) -> Response:
        called.append(request)
        return Response(b"")

    answer = await exchange(router({("POST", "/v1/publish"): note}), posted(b"x" * 101), 100)
    assert status_of(answer) == 413
    assert called == []


async def test_a_body_in_pieces_is_one_body() -> None:
    sent = b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert b'{"length": 5}' in await exchange(router(TAKING), sent, 100)


async def test_a_body_that_never_ends_is_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    async with connected(router(TAKING), 100) as stream:
        await stream.send_all(posted(b"x" * 50)[:-1])
        assert await stream.receive_some(1) == b""
        assert trio.current_time() == IDLE_S


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2 * HEADERS_BYTES_MAX + b"\r\n\r\n",
        b"GET /" + b"x" * 2 * HEADERS_BYTES_MAX,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["header", "target", "tls", "no host", "length"],
)
async def test_what_is_no_small_request_is_cut_off(sent: bytes) -> None:
    assert await exchange(router(ROUTES), sent) == b""


async def test_an_idle_connection_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    async with connected(router(ROUTES)) as stream:
        assert await stream.receive_some(1) == b""
        assert trio.current_time() == IDLE_S


async def test_a_request_in_drops_does_not_keep_a_connection(autojump_clock: trio.testing.MockClock) -> None:
    async with connected(router(ROUTES)) as stream:
        with suppress(trio.BrokenResourceError):
            for byte in request("/v1/status"):
                await stream.send_all(bytes([byte]))
                await trio.sleep(1)
        assert IDLE_S <= trio.current_time() <= IDLE_S + 1


async def test_a_client_that_goes_away_ends_nothing() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_connection, theirs, router(ROUTES))
        await ours.send_all(request("/v1/status")[:10])
        await ours.aclose()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_json_is_never_sent(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        as_json({"loss": value})


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


class Arrivals(trio.abc.Listener[trio.abc.Stream]):  # type: ignore[misc]
    """A listener whose clients come through a channel."""

    def __init__(self) -> None:
        self.arrive, self._arrived = trio.open_memory_channel[trio.abc.Stream](9)

    async def accept(self) -> trio.abc.Stream:
        return await self._arrived.receive()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_more_clients_than_places_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarmd.control.server.CONNECTIONS_MAX", 1)
    listener, served = Arrivals(), list[str]()

    async def note(request: Request) -> Response:
        served.append(request.path)
        return Response(b"")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, listener, note)
        clients = []
        for path in ("/first", "/second"):
            ours, theirs = trio.testing.memory_stream_pair()
            listener.arrive.send_nowait(theirs)
            await ours.send_all(request(path))
            await trio.testing.wait_all_tasks_blocked()
            clients.append(ours)
        assert served == ["/first"]
        await clients[0].aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert served == ["/first", "/second"]
        nursery.cancel_scope.cancel()


async def test_a_handler_that_fails_costs_an_answer_and_not_the_node() -> None:
    async def broken(request: Request) -> Response:
        raise ZeroDivisionError

    answer = await exchange(router({("GET", "/v1/status"): broken}), request("/v1/status"))
    assert status_of(answer) == 500
    assert b"ZeroDivisionError" not in answer
