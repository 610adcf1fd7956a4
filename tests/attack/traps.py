"""Traps: a folder that stays empty and a socket that nobody calls, unless a stranger's text was run."""

import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class Traps:
    """A context. `markers` is the folder, `port` the socket's; `sprung` says what was found in either.

    The folder is everybody's and is gone at the end: a node of root scores as nobody, who must be able to make a file in it.
    """

    def __init__(self) -> None:
        self._calls: list[str] = []
        self._socket = socket.socket()

    def __enter__(self) -> Self:
        self.markers = Path(tempfile.mkdtemp(prefix="swarmd-attack-", dir=folder_of_everybody()))
        self.markers.chmod(0o777)  # whatever the umask
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        shutil.rmtree(self.markers)

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
            self._calls.append(f"call from port {address[1]}")
            connection.close()


def folder_of_everybody(candidates: Sequence[Path] | None = None) -> Path:
    """A folder for temporary files that every user may enter, the system's if it is one.

    Raises:
        RuntimeError: there is none.
    """
    found = candidates or [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    for folder in found:
        if folder.is_dir() and all(one.stat().st_mode & stat.S_IXOTH for one in (folder, *folder.parents)):
            return folder
    raise RuntimeError(
        f"no trap can be set: of {', '.join(map(str, found))} none can be entered by every user; set TMPDIR to one that can"
    )
