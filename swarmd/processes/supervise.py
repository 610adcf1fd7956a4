"""Keeps one child process alive and speaks to it: spawn, call, restart with backoff, end in order.

`Child.run` is started in a nursery and lasts as long as the node. A child that dies is replaced; calls that were under way raise
`ChildDied`, later calls wait for the replacement. The first start is different: what fails there for a reason the operator can
mend (a `SwarmdError`) ends the node with its message and exit code.
"""

import contextlib
import logging
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trio

from swarmd.errors import BY_NAME, ChildDied, Failure, LocalError, OutOfMemory, SwarmdError
from swarmd.files.failing import disk_error, of_disk
from swarmd.processes.frames import PING, Dropped, FrameReader, Request, Told, encode_frame
from swarmd.processes.logs import keep_bounded, tail
from swarmd.processes.spawn import end, spawn
from swarmd.processes.values import typed

# A child that was up this long is taken for healthy: its backoff starts over.
HEALTHY_S = 60.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.5, 30.0
FIRST_STARTS_MAX = 3
_REASONS = {-signal.SIGKILL: "killed", OutOfMemory.exit_code: "memory"}  # by the exit status of a child
_READ_BYTES = 1 << 18
# A child answers a ping whatever it is working at: its socket has a thread, or the event loop. One that does not is stopped, or the
# machine swaps. Together they leave a quarter of a minute to be back within a minute and a half of a stop.
PING_EVERY_S, PING_S_MAX, PING_STEP_S = 10.0, 40.0, 1.0
# A child's socket is read by a thread of its own (or its event loop): 64 MiB, the largest frame, take under a second. A minute is a
# stopped process; at half, a machine that swaps would lose children, at double it is only noticed later.
SEND_S_MAX = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChildSpec:
    """A child to run: `service` is `package.module:Class`; `args` is asked anew before each start; for `held` see `spawn`."""

    name: str
    service: str
    args: Callable[[], Mapping[str, object]]
    log_path: Path
    start_deadline_s: float = 300.0
    env: dict[str, str] = field(default_factory=dict)
    held: tuple[int, ...] = ()


class Child:
    """One supervised child process.

    Args:
        spec: what to run.
        on_event: called for each event with its type's name and its fields; plain and quick, it runs inside the reader.
        on_dropped: called with how many events were dropped before the one that comes next.
        on_restart: called with the reason whenever a child has to be replaced, before the arguments of the next are asked for:
            `crash`, `hang`, `start`, `spawn` (the machine gives no process or no log file now), `killed` (by a SIGKILL that was not
            ours, most often the kernel out of memory), `memory` (it has none left, at its start or later). What it raises ends the
            supervision, and nothing else ends starts for memory.
    """

    def __init__(
        self,
        spec: ChildSpec,
        *,
        on_event: Callable[[str, object], None] = lambda name, fields: None,
        on_dropped: Callable[[int], None] = lambda num: None,
        on_restart: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.spec = spec
        self.info: object = None
        self.pid: int | None = None
        self.num_restarts = 0
        self._on_event, self._on_dropped, self._on_restart = on_event, on_dropped, on_restart
        self._ready = trio.Event()
        self._connection: _Connection | None = None
        self._asked_at_s: float | None = None

    @property
    def up(self) -> bool:
        """Whether a started child is there to be called."""
        return self._connection is not None

    async def call(self, op: str, *, within_s: float | None = None, **args: object) -> object:
        """The result of one operation. Waits for a restart under way.

        Raises:
            ChildDied: the child ended before it answered, or was killed because `within_s` passed.
            SwarmdError: the operation failed for an expected reason.
            LocalError: it failed for an unexpected one; the child's traceback is in `why`.
        """
        while (connection := self._connection) is None:  # a new one may be lost again before we are woken
            await self._ready.wait()
        with trio.move_on_after(within_s if within_s is not None else float("inf")):
            return await connection.call(op, args)
        connection.fail("hang")
        raise ChildDied(f"{self.spec.name} did not answer {op!r} within {within_s} s and was replaced")

    async def wait_ready(self) -> object:
        """The answer of the child's start, once a child is up."""
        await self._ready.wait()
        return self.info

    async def run(self, *, task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED) -> None:
        """Start, serve and replace the child until cancelled. `started()` gets the first start's answer."""
        backoff_s, num_failed_starts, announced, spec = BACKOFF_FIRST_S, 0, False, self.spec
        async with trio.open_nursery() as readers:
            readers.start_soon(keep_bounded, spec.log_path)
            while True:
                began = trio.current_time()
                try:
                    process, stream = await spawn(spec.service, spec.log_path, spec.env, spec.held)
                except OSError as error:  # no memory, process or descriptor left at this moment
                    if not announced:
                        what, of_log = f"{self.spec.name} cannot be started", self.spec.log_path.parent
                        raise (
                            disk_error(error, what)
                            if of_disk(error, of_log)
                            else LocalError(what, str(error))
                        ) from error
                    log.warning("%s cannot be started now: %s", self.spec.name, error)
                    self._on_restart("spawn")
                    await trio.sleep(backoff_s * random.uniform(0.8, 1.2))
                    backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
                    continue
                connection = _Connection(self.spec, stream)
                connection.on_event, connection.on_closed = self._heard, self._lost
                readers.start_soon(connection.read)
                try:
                    self.info = await connection.start(self.spec)
                    if connection.closed.is_set():
                        raise ChildDied(f"the {self.spec.name} process ended as soon as it had started")
                    self._connection, self.pid = connection, process.pid
                    self._ready.set()
                    readers.start_soon(self._ping, connection)
                    if not announced:
                        announced = True
                        task_status.started(self.info)
                    await connection.closed.wait()
                    reason = connection.reason
                except SwarmdError as error:
                    reason = "memory" if isinstance(error, OutOfMemory) else "start"
                    num_failed_starts += reason == "start"
                    passing = type(error) in (ChildDied, LocalError, OutOfMemory)
                    if not announced and (not passing or num_failed_starts >= FIRST_STARTS_MAX):
                        raise
                finally:
                    connection.fail("crash")
                    with trio.CancelScope(shield=True):
                        await connection.aclose()
                    status = await end(process, at_once=connection.reason == "hang")
                if reason != "hang":
                    reason = _REASONS.get(status or 0, reason)
                self.num_restarts += 1
                self._on_restart(reason)
                if trio.current_time() - began > HEALTHY_S:
                    backoff_s = BACKOFF_FIRST_S
                await trio.sleep(backoff_s * random.uniform(0.8, 1.2))
                backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    @property
    def silent_s(self) -> float:
        """Seconds since the child was asked whether it is there, and has not answered; 0 where it has."""
        return 0.0 if self._asked_at_s is None else trio.current_time() - self._asked_at_s

    async def _ping(self, connection: "_Connection") -> None:
        """Give up on a child that does not answer: it is stopped, or something in it keeps Python from running."""
        async with trio.open_nursery() as nursery:
            while not connection.closed.is_set():
                answered = trio.Event()
                nursery.start_soon(_ask_once, connection, answered)
                self._asked_at_s, waited_s = trio.current_time(), 0.0
                # In steps: a daemon that was stopped itself has not waited so long, and finds the answer when it goes on.
                while waited_s < PING_S_MAX and not answered.is_set():
                    before_s = trio.current_time()
                    with trio.move_on_after(PING_STEP_S):
                        await answered.wait()
                    waited_s += min(trio.current_time() - before_s, 2 * PING_STEP_S)
                if not answered.is_set():
                    log.warning("%s has not answered for %.0f s and is replaced", self.spec.name, waited_s)
                    connection.fail("hang")
                    break
                self._asked_at_s = None
                await trio.sleep(PING_EVERY_S)

    def _lost(self) -> None:
        self._connection, self.pid, self._asked_at_s = None, None, None
        if self._ready.is_set():
            self._ready = trio.Event()

    def _heard(self, name: str, fields: object) -> None:
        if name == Dropped.__name__:
            self._on_dropped(typed(Dropped, fields).num)
        else:
            self._on_event(name, fields)


async def _ask_once(connection: "_Connection", answered: trio.Event) -> None:
    with contextlib.suppress(SwarmdError):  # it died meanwhile
        await connection.call(PING, {})
    answered.set()


class _Connection:
    """The parent's end of one child's life: requests by number, replies to whom they belong."""

    def __init__(self, spec: ChildSpec, stream: trio.SocketStream) -> None:
        self.name, self.log_path = spec.name, spec.log_path
        self.closed = trio.Event()
        self.reason = "crash"
        self.on_event: Callable[[str, object], None] = lambda name, fields: None
        self.on_closed: Callable[[], None] = lambda: None
        self._stream = stream
        self._lock = trio.Lock()
        self._next_id = 1
        self._waiting: dict[int, tuple[trio.Event, list[Told]]] = {}

    async def start(self, spec: ChildSpec) -> object:
        with trio.move_on_after(spec.start_deadline_s):
            return await self.call("start", spec.args())
        raise LocalError(
            f"{spec.name} was not ready within {spec.start_deadline_s} s", f"its log: {spec.log_path}"
        )

    async def call(self, op: str, args: Mapping[str, object]) -> object:
        number = 0 if op == "start" else self._next_id
        self._next_id += 1
        done, box = self._waiting[number] = (trio.Event(), [])
        try:
            async with self._lock:
                frame = encode_frame(Request(number, op, dict(args)))
                # half a frame would corrupt the stream for everyone: whoever does not take a whole one is given up
                with trio.CancelScope(shield=True, deadline=trio.current_time() + SEND_S_MAX) as sending:
                    await self._stream.send_all(frame)
                if sending.cancelled_caught:
                    self.fail("hang")
            await done.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.fail("crash")
        finally:
            del self._waiting[number]
        if not box:
            raise ChildDied(
                f"the {self.name} process ended while it was asked for {op!r}", tail(self.log_path)
            )
        (told,) = box
        if told.error is not None:
            raise _revived(self.name, told.error)
        return told.value

    async def read(self) -> None:
        """Deliver replies and events until the child closes its end."""
        reader = FrameReader(Told)
        try:
            while data := await self._stream.receive_some(_READ_BYTES):
                for told in reader.feed(bytes(data)):
                    if isinstance(told.of, str):
                        self.on_event(told.of, told.value)
                    elif told.of in self._waiting:
                        done, box = self._waiting[told.of]
                        box.append(told)
                        done.set()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except (
            LocalError,
            ValueError,
        ) as error:  # not our frames: whatever writes there is no child of ours any more
            log.error("%s wrote what cannot be read and is replaced: %s", self.name, error)
        self.fail("crash")

    async def aclose(self) -> None:
        await self._stream.aclose()

    def fail(self, reason: str) -> None:
        """Give up on this child: wake everybody who waits for it."""
        if not self.closed.is_set():
            self.reason = reason
            self.closed.set()
            self.on_closed()
        for done, _ in self._waiting.values():
            done.set()


def _revived(name: str, failure: Failure) -> SwarmdError:
    """The error of the child; one that nobody foresaw names the child."""
    if failure.kind not in BY_NAME:
        failure = failure._replace(what=f"{name}: {failure.what}")
    return failure.error()
