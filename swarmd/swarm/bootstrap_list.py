"""The operator's list of peers to join through, beside the settings: a text file, one address a line, `#` before a comment.

`swarmd bootstrap add` and `rm` write it, and so may the operator. A running node looks at it again and again.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from swarmd.errors import ConfigError
from swarmd.files.atomic import write_atomically
from swarmd.files.reading import read_within
from swarmd.swarm.addresses import PeerAddress, parse_setting

# More than a node could dial. Each is dialled again and again, once a minute while it does not answer.
ADDRESSES_MAX = 200
_FILE_BYTES_MAX = 1 << 20


@dataclass
class BootstrapList:
    """The list in a file, which need not be there."""

    path: Path
    _stamp: tuple[int, int] | None = None

    def read(self) -> list[PeerAddress]:
        """All addresses, each once.

        Raises:
            ConfigError: a line is no address, there are too many, or the file cannot be read; with the line's number.
        """
        found: dict[str, PeerAddress] = {}
        for number, line in enumerate(self._lines(), start=1):
            if text := _address_in(line):
                address = parse_setting(text, f"{self.path}, line {number}")
                found[address.text] = address
        self._require_few(len(found))
        return list(found.values())

    def changed(self) -> list[PeerAddress] | None:
        """The list, if the file has changed since the last call. None if it has not, or cannot be used."""
        stamp = None
        with contextlib.suppress(OSError):
            status = self.path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        try:
            return self.read()
        except ConfigError:  # half written, perhaps; a start says what is wrong with it
            return None

    def add(self, address: PeerAddress) -> bool:
        """Whether it was new. Raises ConfigError as `read`, DiskFull or OSError."""
        known = {one.text for one in self.read()}
        if address.text in known:
            return False
        self._require_few(len(known) + 1)
        self._write([*self._lines(), address.text])
        return True

    def remove(self, name: str) -> int:
        """Drop the lines with this address or peer id; how many there were. Raises as `add`."""
        self.read()
        lines = self._lines()
        kept = [line for line in lines if not _is_of(line, name)]
        if len(kept) < len(lines):
            self._write(kept)
        return len(lines) - len(kept)

    def _require_few(self, num: int) -> None:
        if num > ADDRESSES_MAX:
            raise ConfigError(
                f"{self.path} would hold {num} addresses",
                f"a node keeps dialling at most {ADDRESSES_MAX}",
                "remove some",
            )

    def _lines(self) -> list[str]:
        try:
            return read_within(self.path, _FILE_BYTES_MAX).decode("utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.path} cannot be read", str(error), "mend it, or move it away") from None

    def _write(self, lines: list[str]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self.path, "".join(f"{line}\n" for line in lines).encode())


def _address_in(line: str) -> str:
    return line.partition("#")[0].strip()


def _is_of(line: str, name: str) -> bool:
    text = _address_in(line)
    return bool(text) and name in (text, text.rpartition("/")[2])
