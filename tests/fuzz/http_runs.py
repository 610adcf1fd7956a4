"""`python -m tests.fuzz.http_runs`: counted runs against the local HTTP interface, with the figures of each.

1. Targets: `parse_target` gives a target or BadTarget, and what it gives is what the standard library's reading gives.
2. Requests: whole connections through `serve` and the node's own routes, over streams in memory.
3. Sockets: the same over a TCP port of 127.0.0.1 and a Unix socket.

Inputs are the nasty ones of `tests.control.nasty` and changes of them; the same seed gives the same inputs. Exit code 1 when an
exception left anything, an answer was none, serving ended, or memory grew. The input is left in runs/fuzz/http then.
"""

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import trio

from swarmd.control.gate import gate_of
from swarmd.control.http import BODY_BYTES_MAX, End, Service
from swarmd.control.server import open_tcp, open_unix, router, serve
from swarmd.control.target import FIELDS_MAX, BadTarget, parse_target
from swarmd.node.api import Api
from tests.control.nasty import BODIES, FIELDS, HOSTS, METHODS, TARGETS, WHOLE, request_of
from tests.control.served import MemoryListener
from tests.fuzz.__main__ import GROWTH_MB_MAX, RUNS
from tests.fuzz.finding import Finding, require
from tests.fuzz.http import check_answer
from tests.fuzz.meter import resident_bytes
from tests.fuzz.mutate import mutated
from tests.node.test_api import sealed, with_network

WORDS = (
    b"%",
    b"%00",
    b"%2",
    b"%c3%a9",
    b"[",
    b"]",
    b"//",
    b"?",
    b"&",
    b"=",
    b"+",
    b"#",
    b";",
    b"..",
    b"\x00",
    b"\xff",
    b" ",
    b"@",
)
LINES = (
    *FIELDS,
    *(b"Host: " + host for host in HOSTS),
    *METHODS,
    *BODIES,
    b"\r\n",
    b"\n",
    b"\r",
    b":",
    b"HTTP/1.0",
    *WORDS,
)
SEALED = request_of(b"/v1/publish", b"POST", fields=(b"Content-Length: %d" % len(sealed()),), body=sealed())
ROUTES = with_network()[0].operator_routes()
# As many that are right as that are wrong: what is behind the parsers is reached by small changes only.
RIGHT = (SEALED, *(request_of(path, method) for path, method in (
    (path.encode() + query, method.encode())
    for method, path in ROUTES
    for query in (b"", b"?last=7", b"?evaluate=1", TARGETS[6].removeprefix(b"/v1/ban"), b"?peer_id=x&for_s=0&reason=%41+b")
)))  # fmt: skip
REQUESTS = (*WHOLE, *(RIGHT * (len(WHOLE) // len(RIGHT))))
# The standard library's reading is slower than ours.
SECOND_EVERY = 16
# After so much of a run, what grows is no cache.
WARM_UP_SHARE = 0.1
# One client in so many leaves without reading its answer.
LEAVE_EVERY = 16

Dial = Callable[[], Awaitable[trio.abc.HalfCloseableStream]]


def main() -> int:
    """Run, print the figures, and say whether all was well."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.http_runs", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--targets", type=int, default=10_000_000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--sockets", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("swarmd").addHandler(_REPORT)
    try:
        run_targets(options.targets, options.seed)
        trio.run(run_requests, options.requests, options.seed)
        trio.run(run_sockets, options.sockets, options.seed)
    except Exception as error:
        logging.getLogger(__name__).exception("FOUND %s; its input is in %s", error, RUNS / "http" / "found")
        return 1
    print("no exception left a connection")
    return 0


_REPORT = logging.StreamHandler(sys.stdout)


class Run:
    """Counts, and prints the figures at the end."""

    def __init__(self, name: str, num: int, seed: int) -> None:
        self.name, self.num = name, num
        self.rng = random.Random(f"{name} {seed}")
        self.found: Counter[str] = Counter()
        self._began_s, self._began_cpu_s, self._warm_bytes = time.monotonic(), time.process_time(), 0

    def count(self, number: int, what: str) -> None:
        """Input `number` came to this."""
        self.found[what] += 1
        if not self._warm_bytes and number >= WARM_UP_SHARE * self.num:
            self._warm_bytes = resident_bytes()

    def tell(self) -> None:
        """Print the figures.

        Raises:
            Finding: memory grew.
        """
        seconds, cpu_s = time.monotonic() - self._began_s, time.process_time() - self._began_cpu_s
        growth_mb = max(0, resident_bytes() - self._warm_bytes) / 1e6
        found = ", ".join(f"{what} {num}" for what, num in self.found.most_common())
        print(
            f"{self.name:<9}{self.num:>10} in {seconds:.0f} s, {cpu_s:.0f} s of CPU ({self.num / cpu_s:.0f} a second of it),"
            f" memory grew by {growth_mb:.1f} MB: {found}",
            flush=True,
        )
        require(growth_mb <= GROWTH_MB_MAX, f"memory grew by {growth_mb:.0f} MB, at most {GROWTH_MB_MAX:.0f}")


def run_targets(num: int, seed: int) -> None:
    """Parse `num` targets.

    Raises:
        Finding: one is read otherwise than the standard library does.
        Exception: anything but BadTarget that left the parse.
    """
    run = Run("targets", num, seed)
    for number in range(num):
        raw = mutated(run.rng, TARGETS, WORDS)
        try:
            run.count(number, _parsed(raw, second=number % SECOND_EVERY == 0))
        except Exception:
            _keep(raw)
            raise
    run.tell()


def _parsed(raw: bytes, *, second: bool) -> str:
    try:
        target = parse_target(raw)
    except BadTarget as error:
        return str(error).replace("the target ", "").replace("an escape in ", "").replace("the query ", "")
    require(target.path.startswith("/") and len(target.query) <= FIELDS_MAX, f"{target!r:.200}")
    if second:
        path, _, query = raw.decode("ascii").partition("?")
        require(target.path == unquote(path, errors="strict"), f"path {target.path!r:.200}")
        fields = [
            (name, value) for name, value in parse_qsl("&" + query, keep_blank_values=True, errors="strict")
        ]
        require(list(target.query.items()) == fields, f"query {target.query!r:.200}, not {fields!r:.200}")
    return "read"


def services(api: Api) -> dict[str, Service]:
    """As the node serves them."""
    return {
        "tcp": Service(router(api.public_routes()), gate=gate_of(frozenset({"127.0.0.1"}))),
        "unix": Service(router(api.operator_routes()), body_bytes_max=BODY_BYTES_MAX),
    }


class Client:
    """Sends inputs over one connection each, and looks at what came of it."""

    def __init__(self, run: Run, name: str, dial: Dial) -> None:
        self._run, self._name, self._dial = run, name, dial
        self.ends: list[End] = []
        self._num = 0

    async def send(self, number: int, data: bytes) -> None:
        """One connection.

        Raises:
            Finding: an exception of ours closed it, or its answer was none.
        """
        leaves = number % LEAVE_EVERY == 0
        try:
            said = await self._talk(data, leaves)
            while len(self.ends) <= self._num:
                await trio.lowlevel.checkpoint()
            end = self.ends[self._num]
            self._num += 1
            require(end is not End.FAILED, f"an exception closed a connection to {self._name}")
            status = "unread" if leaves else check_answer(said, end, is_gated=self._name == "tcp")
        except Finding:
            _keep(data)
            raise
        self._run.count(number, f"{self._name} {end} {status}")

    async def _talk(self, data: bytes, leaves: bool) -> bytes:
        said, cut = bytearray(), int(self._run.rng.random() * 3 * (len(data) + 1))
        async with await self._dial() as stream:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(data[:cut])
                if cut < len(data):
                    await trio.lowlevel.checkpoint()
                    await trio.lowlevel.checkpoint()
                    await stream.send_all(data[cut:])
                if leaves:
                    return b""
                await stream.send_eof()
            with suppress(trio.BrokenResourceError):
                while piece := await stream.receive_some(65536):
                    said += piece
        return bytes(said)


async def run_requests(num: int, seed: int) -> None:
    """`num` connections over streams in memory, to either service in turn."""
    run = Run("requests", num, seed)
    listeners = {name: MemoryListener() for name in ("tcp", "unix")}

    def dial(name: str) -> Dial:
        async def connect() -> trio.abc.HalfCloseableStream:
            return listeners[name].connect()

        return connect

    clients = {name: Client(run, name, dial(name)) for name in listeners}
    async with _serving(listeners, clients):
        await _send_all(run, clients)
    run.tell()


async def run_sockets(num: int, seed: int) -> None:
    """`num` connections over a TCP port of 127.0.0.1 and a Unix socket in turn."""
    run = Run("sockets", num, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "control.sock"
        tcp, port = await open_tcp("127.0.0.1", 0, explicit=True)
        listeners = {"tcp": tcp, "unix": await open_unix(path)}
        clients = {
            "tcp": Client(run, "tcp", partial(trio.open_tcp_stream, "127.0.0.1", port)),
            "unix": Client(run, "unix", partial(trio.open_unix_socket, str(path))),
        }
        async with _serving(listeners, clients):
            await _send_all(run, clients)
    run.tell()


@asynccontextmanager
async def _serving(listeners: dict[str, object], clients: dict[str, Client]) -> AsyncIterator[None]:
    """The node's own routes are served; should serving end, so does everything here."""
    both = services(with_network()[0])
    async with trio.open_nursery() as nursery:
        for name, listener in listeners.items():
            nursery.start_soon(serve, listener, both[name], clients[name].ends.append)
        yield
        nursery.cancel_scope.cancel()


async def _send_all(run: Run, clients: dict[str, Client]) -> None:
    for number in range(run.num):
        client = clients["tcp" if number & 1 else "unix"]
        await client.send(number // 2, mutated(run.rng, REQUESTS, LINES))


def _keep(data: bytes) -> None:
    folder = RUNS / "http"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "found").write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
