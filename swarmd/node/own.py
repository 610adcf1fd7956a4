"""What in a data directory is this node's alone, and must be so at the next start: its identity, and its question counter."""

from swarmd import clock
from swarmd.clients.policy import State
from swarmd.errors import StateError
from swarmd.experience.counters import QuestionCounter
from swarmd.files.atomic import write_atomically
from swarmd.files.datadir import DataDir, load_identity_seed
from swarmd.loops.ports import NowMs
from swarmd.protocol.signing import Identity


def own_identity(data_dir: DataDir, state: State) -> tuple[bytes, Identity, bool]:
    """The node's seed, its identity, and whether it is new; `state` is that of the newest checkpoint, empty where there is none.

    Raises:
        StateError: the file cannot be used, or the checkpoints are of another identity. Nothing has been made then.
    """
    wanted = state.get("identity")
    if wanted is not None and not data_dir.identity.exists():
        raise _other(data_dir, "it is missing")
    seed, new = load_identity_seed(data_dir)
    identity = Identity.from_seed(seed)
    if wanted not in (None, identity.public_key.hex()):
        raise _other(data_dir, f"it is now {identity.peer_id}")
    return seed, identity, new


def make_identity(data_dir: DataDir, seed: bytes) -> None:
    """Give an empty directory this identity, of which no question was ever asked. Raises DiskFull or OSError."""
    write_atomically(data_dir.identity, seed, mode=0o600)
    open_counter(data_dir, {}, new=True).close()


def open_counter(
    data_dir: DataDir, state: State, *, new: bool, now_ms: NowMs = clock.now_ms
) -> QuestionCounter:
    """The question counter, with the newest checkpoint as a witness; `new` says that the identity is.

    Raises:
        StateError: see `QuestionCounter`.
    """
    used = None if new else int(state.get("next_counter", 0))
    return QuestionCounter(data_dir.counters, used=used, now_ms=now_ms)


def _other(data_dir: DataDir, what: str) -> StateError:
    return StateError(
        f"{data_dir.identity} is not the identity that this node had: {what}",
        f"the checkpoints in {data_dir.checkpoints} say whose they are, and peers know the node by its identity",
        "restore your copy of the file; to go on with the policy under another identity, `swarmd export` it to a folder, "
        "and start with that folder as the model in another --data-dir",
    )
