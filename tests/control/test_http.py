"""One request a connection: what is answered, what is refused, and what becomes of clients that misbehave."""

import json
from contextlib import suppress

import pytest
import trio
import trio.testing

from swarmd.control.gate import gate_of
from swarmd.control.http import (
    HEADERS_BYTES_MAX,
    LINGER_BYTES_MAX,
    READ_BYTES,
    End,
    Request,
    Response,
    Service,
    as_json,
)
from swarmd.control.server import PATIENCE_S
from tests.control.served import ROUTER, answer_to, posted, request, served, status_of

TAKING = Service(ROUTER, body_bytes_max=3 * READ_BYTES + 1)
GATED = Service(ROUTER, gate=gate_of(frozenset()))


async def test_a_known_path_is_answered_with_its_query() -> None:
    answer, end = await answer_to(ROUTER, request("/v1/status?last=3&a=%20b"))
    head, body = answer.split(b"\r\n\r\n")
    assert (status_of(answer), end) == (200, End.ANSWERED)
    assert json.loads(body) == {"path": "/v1/status", "query": {"last": "3", "a": " b"}}
    assert b"\r\nX-Content-Type-Options: nosniff" in head
    assert b"\r\nConnection: close" in head


async def test_a_head_is_answered_with_the_head() -> None:
    answer, _ = await answer_to(ROUTER, request("/v1/status", method="HEAD"))
    head, body = answer.split(b"\r\n\r\n")
    assert status_of(answer) == 200
    assert b"Content-Length: 36" in head
    assert body == b""


async def test_a_request_in_single_bytes_is_one_request() -> None:
    sent = request("/v1/status")
    answer, _ = await answer_to(ROUTER, *(sent[place : place + 1] for place in range(len(sent))))
    assert status_of(answer) == 200


async def test_a_second_request_on_a_connection_is_not_read() -> None:
    answer, _ = await answer_to(ROUTER, request("/v1/status") * 2)
    assert answer.count(b"HTTP/1.1 200") == 1


async def test_a_client_that_has_said_all_is_answered() -> None:
    async with served(ROUTER) as one:
        stream = one.connect()
        await stream.send_all(request("/v1/status"))
        await stream.send_eof()
        assert status_of(await stream.receive_some(1000)) == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * 2 * HEADERS_BYTES_MAX, 431),
        (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2 * HEADERS_BYTES_MAX + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"\x00\x00\x00", 400),
        (b"GET /v1/status\r\n\r\n", 400),
        (b"GET /v1/status HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
        (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET //[%5 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://localhost/v1/status HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ],
)  # fmt: skip
async def test_what_is_no_request_is_told_so(sent: bytes, status: int) -> None:
    async with served(ROUTER) as one:
        stream = one.connect()
        await stream.send_all(sent)
        answer = await stream.receive_some(10_000)
        await stream.aclose()
    assert (status_of(answer), one.ends) == (status, [End.MALFORMED])


async def test_a_target_like_an_address_is_a_path_that_is_not_there() -> None:
    answer, end = await answer_to(ROUTER, request("//["))
    assert (status_of(answer), end) == (404, End.ANSWERED)


@pytest.mark.parametrize("target", ["/v1/status", "//[", "/%zz", "http://localhost/v1/status", "*"])
async def test_a_foreign_host_is_refused_whatever_it_asks_for(target: str) -> None:
    async with served(GATED) as one:
        stream = one.connect()
        await stream.send_all(request(target, host="evil.example"))
        answer = await stream.receive_some(10_000)
        await stream.aclose()
    assert (status_of(answer), one.ends) == (421, [End.FOREIGN])


async def test_a_socket_without_a_gate_does_not_care_for_hosts() -> None:
    answer, _ = await answer_to(ROUTER, request("/v1/status", host="evil.example"))
    assert status_of(answer) == 200


@pytest.mark.parametrize("size", [0, 1, READ_BYTES, 3 * READ_BYTES + 1])
async def test_a_body_is_read_whole(size: int) -> None:
    answer, _ = await answer_to(TAKING, posted(b"x" * size))
    assert b'{"length": %d}' % size in answer


async def test_a_body_in_pieces_is_one_body() -> None:
    sent = b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    answer, _ = await answer_to(TAKING, sent)
    assert b'{"length": 5}' in answer


@pytest.mark.parametrize("service", [TAKING, Service(ROUTER)], ids=["takes some", "takes none"])
@pytest.mark.parametrize(
    "sent",
    [
        posted(b"x" * (3 * READ_BYTES + 2)),
        b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3002\r\n" + b"x" * 0x3002,
    ],
    ids=["sent", "said", "chunked"],
)
async def test_a_longer_body_is_refused(service: Service, sent: bytes) -> None:
    async with served(service) as one:
        stream = one.connect()
        await stream.send_all(sent)
        assert status_of(await stream.receive_some(10_000)) == 413
        await stream.aclose()
    assert one.ends == [End.ANSWERED]


async def test_who_waits_to_be_told_to_go_on_is_told() -> None:
    sent = b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    answer, _ = await answer_to(TAKING, sent, b"ab")
    assert answer.startswith(b"HTTP/1.1 100 ")
    assert b'{"length": 2}' in answer


async def test_who_goes_on_sending_can_read_the_refusal() -> None:
    async with served(Service(ROUTER)) as one:
        stream = one.connect()
        await stream.send_all(posted(b"x" * 100_000))
        await stream.send_all(b"x" * 100_000)
        assert status_of(await stream.receive_some(10_000)) == 413
        await stream.aclose()


async def test_who_sends_without_end_is_cut_off() -> None:
    async with served(Service(ROUTER)) as one:
        stream = one.connect()
        await stream.send_all(posted(b"x" * 2 * LINGER_BYTES_MAX))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"x")
    assert one.ends == [End.ANSWERED]


@pytest.mark.parametrize(
    "sent", [b"", b"GET", posted(b"x" * 50)[:-1]], ids=["nothing", "part of a head", "part of a body"]
)
async def test_a_request_that_does_not_come_is_not_waited_for(
    sent: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    async with served(TAKING) as one:
        stream = one.connect()
        await stream.send_all(sent)
        assert await stream.receive_some(1) == b""
        assert trio.current_time() == PATIENCE_S
    assert one.ends == [End.LATE]


@pytest.mark.parametrize("sent", [request("/v1/status"), posted(b"x" * 50)], ids=["head", "body"])
async def test_a_request_in_drops_does_not_keep_a_connection(
    sent: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    async with served(TAKING) as one:
        stream = one.connect()
        with suppress(trio.BrokenResourceError):
            for byte in sent:
                await stream.send_all(bytes([byte]))
                await trio.sleep(1)
        assert PATIENCE_S <= trio.current_time() <= PATIENCE_S + 1


async def test_an_answer_that_is_not_read_does_not_keep_a_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(ROUTER) as one:
        ours, theirs = trio.testing.lockstep_stream_pair()  # nothing is sent until it is read
        one.listener.arrive(theirs)
        await ours.send_all(request("/v1/status"))
        await trio.sleep(PATIENCE_S + 1)
    assert one.ends == [End.LATE]


@pytest.mark.parametrize("sent", [b"", request("/v1/status")[:10], posted(b"xx")[:-1], request("/v1/status")])
async def test_a_client_that_goes_away_ends_nothing(sent: bytes) -> None:
    async with served(TAKING) as one:
        stream = one.connect()
        await stream.send_all(sent)
        await stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert status_of(await one.ask(request("/v1/status"))) == 200
    assert one.ends[1] == End.ANSWERED


async def broken(request: Request) -> Response:
    raise ZeroDivisionError("secret")


async def unsendable(request: Request) -> Response:
    return Response(b"", content_type="text/plain\r\n")


async def no_json(request: Request) -> Response:
    return as_json({"loss": float("nan")})


async def several(request: Request) -> Response:
    raise ExceptionGroup("of a nursery", [KeyError("a"), RecursionError()])


async def torn_within(request: Request) -> Response:
    raise trio.BrokenResourceError("the connection to a child, not this one")


@pytest.mark.parametrize("handler", [broken, no_json, several, torn_within])
async def test_a_handler_that_fails_costs_its_own_answer(handler, caplog: pytest.LogCaptureFixture) -> None:
    async with served(handler) as one:
        for _ in range(2):
            answer = await one.ask(request("/"))
            assert status_of(answer) == 500
            assert b"secret" not in answer
    assert one.ends == [End.FAILED, End.FAILED]
    assert len(caplog.records) == 1


async def test_a_handler_that_fails_is_noticed_when_its_client_has_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served(broken) as one:
        stream = one.connect()
        await stream.send_all(request("/"))
        await stream.aclose()
    assert one.ends == [End.FAILED]


async def test_an_answer_that_cannot_be_sent_costs_its_own_connection() -> None:
    answer, end = await answer_to(unsendable, request("/"))
    assert (answer, end) == (b"", End.FAILED)


class Torn(trio.abc.HalfCloseableStream):  # type: ignore[misc]
    """A stream whose every method raises what none should."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        raise RuntimeError

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError

    wait_send_all_might_not_block = send_eof = aclose = receive_some  # type: ignore[assignment]


async def test_a_stream_that_breaks_as_none_should_costs_its_own_connection() -> None:
    async with served(ROUTER) as one:
        one.listener.arrive(Torn())
        assert status_of(await one.ask(request("/v1/status"))) == 200
    assert one.ends == [End.FAILED, End.ANSWERED]


class Resetting(Torn):
    """A stream whose client is foreign, and breaks off when it was told so."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return request("/v1/status", host="evil.example")

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        assert status_of(bytes(data)) == 421

    async def send_eof(self) -> None:
        raise trio.BrokenResourceError

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_who_was_refused_and_breaks_off_was_refused() -> None:
    async with served(GATED) as one:
        one.listener.arrive(Resetting())
    assert one.ends == [End.FOREIGN]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_json_is_never_sent(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        as_json({"loss": value})
