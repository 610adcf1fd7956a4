"""The addresses that worked lately, in one JSON file: how a node finds the swarm when every bootstrap is gone.

Never fatal: a missing or damaged file starts an empty book and is counted; a full disk costs the book, not the node.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from swarmd.errors import DiskFull
from swarmd.files.atomic import write_atomically
from swarmd.files.reading import read_within
from swarmd.recent import Recent
from swarmd.swarm.addresses import PeerAddress, parse
from swarmd.swarm.nets import net_of

# 200 addresses are 20 KB.
ADDRESSES_MAX = 200
# A file larger than this is not ours.
_FILE_BYTES_MAX = 1 << 20
# Of one public net: whoever rents a few addresses side by side must not push all others out.
PER_NET_MAX = 4
_VERSION = 1


@dataclass
class PeerBook:
    """Last good addresses, newest last, one per peer.

    Args:
        path: the file, or None to keep the book in memory only.
    """

    path: Path | None
    num_corrupt: int = 0
    num_write_errors: int = 0
    _last_ok_s: Recent[str, tuple[PeerAddress, int]] = field(default_factory=lambda: Recent(ADDRESSES_MAX))
    _dirty: bool = False

    def __post_init__(self) -> None:
        if self.path is None:
            return
        try:
            data = read_within(self.path, _FILE_BYTES_MAX)
        except FileNotFoundError:
            return
        except (OSError, ValueError):
            self.num_corrupt += 1
            return
        self._read(data)

    def note(self, address: PeerAddress, now_s: int) -> None:
        """A dial to this address just succeeded."""
        self._last_ok_s.pop(address.peer_id, None)
        net = net_of(address.host)
        if net is not None and net.is_public:
            same = [peer for peer, (other, _) in self._last_ok_s.items() if net_of(other.host) == net]
            for peer in same[: max(0, len(same) + 1 - PER_NET_MAX)]:
                del self._last_ok_s[peer]
        self._last_ok_s[address.peer_id] = (address, now_s)
        self._dirty = True

    def addresses(self) -> list[PeerAddress]:
        """All of them, the freshest first."""
        return [address for address, _ in reversed(self._last_ok_s.values())]

    def unsaved(self) -> bytes | None:
        """The file's new content, if anything changed since the last one was taken."""
        if self.path is None or not self._dirty:
            return None
        self._dirty = False
        peers = [{"address": address.text, "last_ok_s": at} for address, at in self._last_ok_s.values()]
        return json.dumps({"version": _VERSION, "peers": peers}, indent=1).encode()

    def write(self, content: bytes) -> None:
        """Replace the file: temporary file, fsync, rename. Blocking, so called in a thread; it reads nothing of the book."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, content)
        except (OSError, DiskFull):
            self.num_write_errors += 1
            self._dirty = True

    def _read(self, data: bytes) -> None:
        try:
            content = json.loads(data)
            if content["version"] != _VERSION:
                raise ValueError("another version")
            entries = [(parse(peer["address"]), int(peer["last_ok_s"])) for peer in content["peers"]]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            self.num_corrupt += 1
            return
        for address, at in entries[-ADDRESSES_MAX:]:
            if address is None:
                self.num_corrupt += 1
            else:
                self.note(address, at)
        self._dirty = False
