"""Errors sorted by blame, each with the exit code an operator's script can rely on.

`ConfigError` is the operator's, `LocalError` is ours or this machine's. A peer's fault is never an exception: it is a verdict
(`swarmd.protocol.rules`). Every message answers three questions: what happened, why, and what to do.
"""

import traceback
from typing import NamedTuple, Self


class SwarmdError(Exception):
    """An expected failure with a text for people.

    Args:
        what: what happened, with the number and the limit where there is one.
        why: the cause, when it is known.
        fix: what the operator can do about it.
    """

    exit_code = 1

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.why, self.fix = what, why, fix

    def __str__(self) -> str:
        return "\n  ".join(part for part in (self.what, self.why, self.fix) if part)


class ConfigError(SwarmdError):
    """The operator's settings cannot be used."""

    exit_code = 2


class NotRunning(SwarmdError):
    """A client command found no daemon to talk to."""

    exit_code = 3


class LocalError(SwarmdError):
    """Our own fault, or this machine's."""


class Locked(LocalError):
    """Another instance holds the data directory."""

    exit_code = 10


class PortTaken(LocalError):
    """A listen address is in use."""

    exit_code = 11


class NoDevice(LocalError):
    """The compute device asked for is not usable."""

    exit_code = 12


class ModelUnavailable(LocalError):
    """The model is unknown, gated, unsupported, or cannot be read."""

    exit_code = 13


class OutOfMemory(LocalError):
    """No memory plan fits the device."""

    exit_code = 14


class IncompatibleSwarm(LocalError):
    """This build and the swarm's manifest disagree."""

    exit_code = 15


class StateError(LocalError):
    """What lies in the data directory cannot be used."""

    exit_code = 16


class DiskFull(LocalError):
    """State could not be written for lack of space."""

    exit_code = 17


class Temporary(LocalError):
    """The network was not there; trying again later may work."""

    exit_code = 75


class ChildDied(LocalError):
    """A child process ended before it answered; the supervisor starts another."""


class TooFewQuestions(LocalError):
    """The swarm's manifest holds out fewer questions than a measurement needs; drawing again finds no more."""


BY_NAME = {
    name: kind
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, SwarmdError)
}


class Failure(NamedTuple):
    """An error as plain values, for another process; `kind` is empty where nobody foresaw the error."""

    kind: str
    what: str
    why: str
    fix: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """A foreseen error with its text, any other with its traceback."""
        if isinstance(error, SwarmdError):
            return cls(type(error).__name__, error.what, error.why, error.fix)
        trace = "".join(traceback.format_exception(error))
        return cls("", f"{type(error).__name__}: {error}", trace, "")

    def error(self) -> SwarmdError:
        """The error again; a LocalError where nobody foresaw it."""
        return BY_NAME.get(self.kind, LocalError)(self.what, self.why, self.fix)


def cause(error: BaseException) -> BaseException:
    """What to tell people of nested exception groups: the foreseen failure inside, or the only one; else the group itself."""
    while isinstance(error, BaseExceptionGroup):
        foreseen = error.subgroup((SwarmdError, KeyboardInterrupt))
        if foreseen is None and len(error.exceptions) > 1:
            break
        error = (foreseen or error).exceptions[0]
    return error
