"""The addresses that worked lately, in one JSON file: how a node finds the swarm when every bootstrap is gone.

Never fatal: a missing file starts an empty book; so does one that is damaged or of a later swarmd, which is set aside and told. A
full disk costs the book, not the node.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swarmd.clients.events import BookLost
from swarmd.errors import DiskFull
from swarmd.files.aside import set_aside
from swarmd.files.atomic import write_atomically
from swarmd.files.checked import NewerVersion, decode_checked, encode_checked
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
# Version 1 had no checksum.
_VERSION, _UNCHECKED = 2, 1


@dataclass
class PeerBook:
    """Last good addresses, newest last, one per peer.

    Args:
        path: the file, or None to keep the book in memory only.
        tell: is given a `BookLost` when the file cannot be used.
    """

    path: Path | None
    tell: Callable[[BookLost], None] = lambda event: None
    num_corrupt: int = 0
    num_write_errors: int = 0
    _last_ok_s: Recent[str, tuple[PeerAddress, int]] = field(default_factory=lambda: Recent(ADDRESSES_MAX))
    _dirty: bool = False

    def __post_init__(self) -> None:
        if self.path is None:
            return
        try:
            self._take(
                decode_checked(read_within(self.path, _FILE_BYTES_MAX), _VERSION, unchecked=_UNCHECKED)
            )
        except FileNotFoundError:
            return
        except NewerVersion as error:
            self._lost(self.path, str(error), "newer")
        except (OSError, ValueError) as error:
            self._lost(self.path, str(error), "corrupt")

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
        return encode_checked(_VERSION, {"peers": peers})

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

    def _take(self, content: Mapping[str, object]) -> None:
        peers = content.get("peers")
        if not isinstance(peers, list):
            raise ValueError("it has no list of peers")
        num_bad = 0
        for entry in peers[-ADDRESSES_MAX:]:
            match entry:
                case {"address": str(text), "last_ok_s": int(at)} if (address := parse(text)) is not None:
                    self.note(address, at)
                case _:
                    num_bad += 1
        self._dirty = False
        if num_bad:
            self.num_corrupt += num_bad
            self.tell(BookLost(f"{num_bad} of {len(peers)} entries cannot be read"))

    def _lost(self, path: Path, why: str, ending: str) -> None:
        self.num_corrupt += 1
        where = "could not be moved away"
        with contextlib.suppress(OSError):
            where = f"is now {set_aside(path, ending).name}"
        self.tell(BookLost(f"{path.name} cannot be read ({why}), and {where}"))
