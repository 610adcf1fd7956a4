"""The operator's end of the control socket: blocking, standard library only, so that commands answer at once."""

import http.client
import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from swarmd.errors import NotRunning, SwarmdError, Temporary

# Bytes of an answer. The longest answer of a node, its rounds, has some MB. Somebody else may listen at the path.
ANSWER_BYTES_MAX = 32 * 2**20


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = str(path)
        self._wire = socket.socket(
            socket.AF_UNIX, socket.SOCK_STREAM
        )  # http.client drops `sock` before the answer is read
        self.is_late = False

    def connect(self) -> None:
        self.sock = self._wire
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def end(self) -> None:
        """End the call from another thread: the time for the whole answer is over, even while bytes still come in."""
        self.is_late = True
        with suppress(OSError):  # the wire is closed already
            self._wire.shutdown(socket.SHUT_RDWR)


def ask(
    path: Path, target: str, *, method: str = "GET", body: bytes | None = None, timeout_s: float = 10.0
) -> Any:
    """The decoded JSON answer of a running daemon.

    Raises NotRunning when nothing listens at `path`, Temporary when the daemon says that it cannot just now, SwarmdError when it
    does not answer in time or refuses.
    """
    connection = _UnixConnection(path, timeout_s)
    patience = threading.Timer(timeout_s, connection.end)
    patience.daemon = True
    patience.start()
    try:
        connection.request(method, target, body)
        response = connection.getresponse()
        answer = response.read(ANSWER_BYTES_MAX + 1)
    except (FileNotFoundError, ConnectionRefusedError):
        raise NotRunning(
            f"no swarmd runs in {path.parent}",
            fix="start one with `swarmd start`, or name its directory with --data-dir",
        ) from None
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, TimeoutError) or connection.is_late:
            raise _late(timeout_s) from None
        raise SwarmdError(
            f"the connection to swarmd in {path.parent} broke", str(error), "see whether it still runs"
        ) from None
    finally:
        patience.cancel()
        connection.close()
    if connection.is_late:
        raise _late(timeout_s)
    if len(answer) > ANSWER_BYTES_MAX:
        raise SwarmdError(
            f"the answer of swarmd in {path.parent} is longer than {ANSWER_BYTES_MAX} bytes",
            "no node says so much",
            "see who listens there",
        )
    if response.status != 200:
        kind = Temporary if response.status == 503 else SwarmdError
        raise kind(_told(answer), f"swarmd answered {response.status}")
    try:
        return json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise SwarmdError(f"the answer of swarmd in {path.parent} was cut off", str(error)) from None


def _late(timeout_s: float) -> SwarmdError:
    return SwarmdError(
        f"swarmd did not answer within {timeout_s:.0f} s", "its event loop may hang", "try again"
    )


def _told(answer: bytes) -> str:
    """What the daemon says went wrong."""
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return answer.decode("utf-8", "replace").strip()
