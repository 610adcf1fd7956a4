"""Traps: a folder that stays empty and a socket that nobody calls, unless a stranger's text was run."""

import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class Traps:
    """A context. `markers` is the folder, `port` the socket's; `sprung` says what was found in either."""

    def __init__(self, markers: Path) -> None:
        self.markers = markers
        self._calls: list[str] = []
        self._socket = socket.socket()

    def __enter__(self) -> Self:
        self.markers.mkdir(parents=True)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    @property
    def port(self) -> int:
        """Of the socket, on 127.0.0.1."""
        return int(self._socket.getsockname()[1])

    def sprung(self) -> list[str]:
        """Names of the files that were made, and who called; empty when nothing happened."""
        return sorted(path.name for path in self.markers.iterdir()) + self._calls

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._socket.accept()
            except OSError:  # closed
                return
            connection.close()
            self._calls.append(f"call from port {address[1]}")
