"""The data directory of one node: where everything lies, and who may use it.

Every path below is used only after `claim` has seen that the directory is this user's alone; nothing that is opened in it can
then be a link that somebody else put there.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swarmd.errors import StateError
from swarmd.files.atomic import write_atomically
from swarmd.files.owned import open_own, require_own, require_own_content

SOCKET_PATH_BYTES_MAX = 107  # sun_path of Linux and, at 103, macOS; longer paths fall back to a short one


class _Below:
    """A path below a data directory, by its name there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, data_dir: "DataDir", kind: type["DataDir"]) -> Path:
        return data_dir.root / self._name


@dataclass(frozen=True)
class DataDir:
    """Paths below one directory."""

    root: Path
    config = _Below("config.toml")  # the operator's settings, which a node only reads
    bootstrap = _Below("bootstrap.txt")  # the operator's list of peers to join through
    identity = _Below("identity.key")
    buffer = _Below("buffer.sqlite")
    counters = _Below("node.sqlite")  # the question counter, which a running node and commands share
    contributed = _Below("contributed.sqlite")  # what was asked by hand, and what became of it
    checkpoints = _Below("checkpoints")
    peers = _Below("peers.json")
    standings = _Below("standings.json")  # what is known of authors: who is proven, and who is banned
    bans = _Below("bans.json")  # the operator's bans, which are in the standings too
    rounds = _Below("rounds.jsonl")
    evaluations = _Below("evaluations.jsonl")
    # A start makes this anew, and libraries keep here what makes them faster; may be deleted while no node runs.
    cache = _Below("cache")
    model = _Below("cache/model")  # what of the model's folder the child processes may read

    @property
    def socket(self) -> Path:
        """The control socket; a short path in the temporary directory where this one would be too long for a socket.

        Raises:
            StateError: another user has made that place first, and what listens there is not our node.
        """
        path = self.root / "control.sock"
        if len(os.fsencode(path)) <= min(SOCKET_PATH_BYTES_MAX, 103):
            return path
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        short = Path(tempfile.gettempdir()) / f"swarmd-{os.geteuid()}"
        require_own(short)
        return short / f"{name}.sock"

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"


def locate(given: str | None, environ: Mapping[str, str] = os.environ) -> DataDir:
    """The data directory: as given, else `SWARMD_DATA_DIR`, systemd's `STATE_DIRECTORY`, or the XDG state directory."""
    choice = given or environ.get("SWARMD_DATA_DIR") or environ.get("STATE_DIRECTORY", "").split(":")[0]
    if not choice:
        state = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        choice = str(Path(state) / "swarmd")
    return DataDir(Path(choice).expanduser().absolute())


def claim(data_dir: DataDir) -> None:
    """See that the directory, if it is there, is this user's alone, before anything in it is read: `config.toml` is the first.

    From here on nobody else can write to what this process and its children make, whatever the umask was.

    Raises:
        StateError: it is another user's, or others can write to it, to something in it, or to the way to it.
    """
    require_own_content(data_dir.root, unread=data_dir.cache.name, linked=data_dir.config.name)
    os.umask(os.umask(0o077) | 0o022)


def inspect(data_dir: DataDir) -> None:
    """As `claim`, for a command that only reads: the administrator may look into the directory of another user.

    Raises:
        StateError: as `claim`.
    """
    owner = data_dir.root.stat().st_uid if os.geteuid() == 0 and data_dir.root.is_dir() else None
    require_own_content(data_dir.root, unread=data_dir.cache.name, linked=data_dir.config.name, owner=owner)


def load_identity_seed(data_dir: DataDir) -> tuple[bytes, bool]:
    """The node's 32-byte Ed25519 seed, made on first use with mode 0600, and whether it is new.

    Raises StateError when the file is not 32 bytes or can be read by others: a changed identity is never silent.
    """
    path = data_dir.identity
    try:
        handle = open_own(path, os.O_RDONLY)
    except FileNotFoundError:
        seed = os.urandom(32)
        write_atomically(path, seed, mode=0o600)
        return seed, True
    with os.fdopen(handle, "rb") as file:
        found, seed = os.fstat(handle), file.read(33)
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise StateError(
            f"{path} can be read by others (mode {mode:04o})",
            "it is the node's private key",
            f"chmod 600 {path}",
        )
    if len(seed) != 32:
        raise StateError(
            f"{path} holds {found.st_size} bytes instead of 32",
            "it was damaged or is not a swarmd identity",
            "restore your copy; or move the file away, and the node gets a new identity",
        )
    return seed, False
