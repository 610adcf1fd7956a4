"""The data directory of one node: where everything lies, and who may use it."""

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swarmd.atomic import write_atomically
from swarmd.errors import Locked, StateError

SOCKET_PATH_BYTES_MAX = 107  # sun_path of Linux and, at 103, macOS; longer paths fall back to a short one


@dataclass(frozen=True)
class DataDir:
    """Paths below one directory."""

    root: Path

    @property
    def identity(self) -> Path:
        return self.root / "identity.key"

    @property
    def buffer(self) -> Path:
        return self.root / "buffer.sqlite"

    @property
    def counters(self) -> Path:
        """The question counter, which a running node and commands share."""
        return self.root / "node.sqlite"

    @property
    def contributed(self) -> Path:
        """What was asked by hand, and what became of it."""
        return self.root / "contributed.sqlite"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def peers(self) -> Path:
        return self.root / "peers.json"

    @property
    def standings(self) -> Path:
        """What is known of authors: who is proven, and who is banned."""
        return self.root / "standings.json"

    @property
    def rounds(self) -> Path:
        return self.root / "rounds.jsonl"

    @property
    def evaluations(self) -> Path:
        return self.root / "evaluations.jsonl"

    @property
    def cache(self) -> Path:
        """What libraries keep to be faster next time; may be deleted at any moment."""
        return self.root / "cache"

    @property
    def socket(self) -> Path:
        """The control socket; a short path in the temporary directory where this one would be too long for a socket."""
        path = self.root / "control.sock"
        if len(os.fsencode(path)) <= min(SOCKET_PATH_BYTES_MAX, 103):
            return path
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"swarmd-{os.getuid()}" / f"{name}.sock"

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"


def locate(given: str | None, environ: Mapping[str, str] = os.environ) -> DataDir:
    """The data directory: as given, else `SWARMD_DATA_DIR`, systemd's `STATE_DIRECTORY`, or the XDG state directory."""
    choice = given or environ.get("SWARMD_DATA_DIR") or environ.get("STATE_DIRECTORY", "").split(":")[0]
    if not choice:
        state = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        choice = str(Path(state) / "swarmd")
    return DataDir(Path(choice).expanduser().absolute())


class Lock:
    """Holds a data directory for this process; a second holder gets `Locked`. Released by the kernel, whatever happens."""

    def __init__(self, data_dir: DataDir) -> None:
        try:
            data_dir.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = (data_dir.root / "lock").open("a+")
        except OSError as error:
            raise StateError(
                f"cannot use the data directory {data_dir.root}", str(error), "choose another with --data-dir"
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            pid = self._file.read().strip() or "unknown"
            self._file.close()
            raise Locked(
                f"another swarmd (pid {pid}) already uses {data_dir.root}",
                fix="look at it with `swarmd status`, or start a second node with --data-dir DIR and another port",
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Let another process have the directory."""
        self._file.close()


def load_identity_seed(data_dir: DataDir) -> tuple[bytes, bool]:
    """The node's 32-byte Ed25519 seed, made on first use with mode 0600, and whether it is new.

    Raises StateError when the file is not 32 bytes or can be read by others: a changed identity is never silent.
    """
    path = data_dir.identity
    if not path.exists():
        seed = os.urandom(32)
        write_atomically(path, seed, mode=0o600)
        return seed, True
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise StateError(
            f"{path} can be read by others (mode {mode:04o})",
            "it is the node's private key",
            f"chmod 600 {path}",
        )
    seed = path.read_bytes()
    if len(seed) != 32:
        raise StateError(
            f"{path} holds {len(seed)} bytes instead of 32",
            "it was damaged or is not a swarmd identity",
            "restore your copy; or move the file away, and the node gets a new identity",
        )
    return seed, False
