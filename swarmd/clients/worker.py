"""A child process as its client sees it, and `ask`, which calls one operation of it by the types of its Protocol."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Concatenate, Never, ParamSpec, Protocol, TypeVar, get_type_hints, overload

from swarmd.processes.values import typed

P = ParamSpec("P")
T = TypeVar("T")


class Worker(Protocol):
    """A child process: `swarmd.processes.supervise.Child`, a simulation's stand-in, or a fake in tests.

    `info` is what its newest start answered, None before the first; `started` tells it by its type.
    """

    info: object
    num_restarts: int

    async def call(self, op: str, *, within_s: float | None = None, **args: object) -> object:
        """The result of an operation; raises ChildDied or another SwarmdError."""

    async def wait_ready(self) -> object:
        """`info`, as soon as the process is up."""

    @property
    def up(self) -> bool:
        """Whether calls are answered now."""

    @property
    def silent_s(self) -> float:
        """Seconds since it was asked whether it is there, and has not answered; 0 where it has."""

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""


def started(worker: Worker, kind: type[T]) -> T | None:
    """The answer of the newest start, None before the first."""
    return None if worker.info is None else typed(kind, worker.info)


@overload
async def ask(
    worker: Worker,
    within_s: float | None,
    op: Callable[Concatenate[Never, P], Awaitable[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T: ...


@overload
async def ask(
    worker: Worker,
    within_s: float | None,
    op: Callable[Concatenate[Never, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T: ...


async def ask(
    worker: Worker, within_s: float | None, op: Callable[..., object], *args: object, **kwargs: object
) -> object:
    """The answer to `op`, a method of the worker's Protocol, within a deadline; arguments are given by name.

    Raises:
        ChildDied: the child ended before it answered, or was ended because `within_s` passed.
        SwarmdError: the operation failed.
    """
    assert not args
    answer = await worker.call(op.__name__, within_s=within_s, **kwargs)
    return typed(_answer_type(op), answer)


@cache
def _answer_type(op: Callable[..., object]) -> type[object]:
    kind: type[object] = get_type_hints(op)["return"]
    return kind
