"""The faults by kind. Each leaves the node running and sound; what it returns is when the node could begin to recover."""

import errno
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from swarmd.errors import DiskFull, Locked, StateError
from tests.chaos.shim import Call
from tests.chaos.target import Target, signal_to
from tests.e2e.watch import alive, descendants

DAY_S = 86_400
Fault = Callable[[Target], float]


def kill_daemon(target: Target) -> float:
    target.kill_daemon()
    return _restart(target)


def kill_child(worker: str) -> Fault:
    def fault(target: Target) -> float:
        signal_to(target.child(worker), signal.SIGKILL)
        return time.monotonic()

    return fault


def kill_zygote(target: Target) -> float:
    signal_to(target.zygote(), signal.SIGKILL)
    return time.monotonic()


def kill_at_call(target: Target) -> float:
    """Whoever makes the N-th rename, flush, write, removal or folder of the data directory dies of it."""
    call = target.rng.choice(list(Call))
    below = descendants(target.pid)
    target.shim.kill_at(call, target.rng.randint(1, 40 if call in (Call.WRITE, Call.OPEN) else 6))
    try:
        target.until(
            lambda: target.shim.has_killed or not target.node.running, f"process killed at {call.name}"
        )
    finally:
        target.shim.kill_at(call, 0)
    began_s = time.monotonic()
    time.sleep(0.5)
    if not target.node.running:
        assert target.node.process is not None
        target.node.process.wait()
        target.require_no_orphans(below)
        return _restart(target)
    return began_s


def stop_child(worker: str) -> Fault:
    """SIGSTOP for good: the daemon has to find out and replace it."""

    def fault(target: Target) -> float:
        pid = target.child(worker)
        signal_to(pid, signal.SIGSTOP)
        began_s = time.monotonic()
        target.until(lambda: not alive(pid), f"end of the stopped {worker}")
        return began_s

    return fault


def stop_daemon(target: Target) -> float:
    """The daemon stands still for some seconds, then goes on; no child may be taken for dead because of it."""
    before = _restarts(target)
    signal_to(target.pid, signal.SIGSTOP)
    time.sleep(target.rng.uniform(3, 15))
    signal_to(target.pid, signal.SIGCONT)
    began_s = time.monotonic()
    target.rounds_more()
    if (after := _restarts(target)) != before:
        target.wrong.append(f"children were replaced because the daemon stood still: {before} -> {after}")
    return began_s


def disk(fails_with: int = 0, *, short_writes: bool = False) -> Fault:
    """Nothing that changes the directory succeeds for some seconds, while the node lives."""

    def fault(target: Target) -> float:
        with target.shim.fault(fails_with=fails_with, short_writes=short_writes):
            target.until(lambda: target.shim.control.num_faults > 0, "call that fails")
            time.sleep(target.rng.uniform(2, 6))
        return time.monotonic()

    return fault


def disk_and_kill(target: Target) -> float:
    """The disk takes nothing, so that rounds are unsaved; then the daemon or its learner dies."""
    worker = target.rng.choice(["daemon", *_learner(target)])
    with target.shim.fault(fails_with=errno.EIO):
        time.sleep(target.rng.uniform(1, 4))
        if worker == "daemon":
            target.kill_daemon()
        else:
            signal_to(target.child(worker), signal.SIGKILL)
            time.sleep(1)
    return _restart(target) if worker == "daemon" else time.monotonic()


def start_on_a_bad_disk(target: Target) -> float:
    """A start while the disk is full, fails or is read-only is refused with its code; the next one goes on."""
    number = target.rng.choice([errno.ENOSPC, errno.EIO, errno.EROFS])
    target.kill_daemon()
    with target.shim.fault(fails_with=number):
        target.start()
        target.ended_by_itself((DiskFull.exit_code if number == errno.ENOSPC else StateError.exit_code,))
    return _restart(target)


def flip(*names: str) -> Fault:
    """One bit of one of these files (patterns below the data directory) changes between a kill and the next start."""

    def fault(target: Target) -> float:
        target.kill_daemon()
        flip_bit(_any_file(target, names), target.rng)
        return _restart(target)

    return fault


def flip_identity(target: Target) -> float:
    """Refused, as documented; the operator's copy mends it."""
    target.kill_daemon()
    path = target.node.data_dir.identity
    copy = path.read_bytes()
    flip_bit(path, target.rng)
    target.start()
    target.ended_by_itself((StateError.exit_code,))
    path.write_bytes(copy)
    return _restart(target)


def clock_jump(target: Target) -> float:
    """The clock is a day or some seconds off for a while."""
    target.shim.control.clock_ns = target.rng.choice([-DAY_S, -40, 40, DAY_S]) * 10**9
    time.sleep(target.rng.uniform(2, 6))
    target.shim.control.clock_ns = 0
    return time.monotonic()


def clock_back_at_start(target: Target) -> float:
    """A start with the clock a day back, which is set right after some rounds."""
    target.kill_daemon()
    target.shim.control.clock_ns = -DAY_S * 10**9
    began_s = _restart(target)
    target.rounds_more(3)
    target.shim.control.clock_ns = 0
    return began_s


def two_starts(target: Target) -> float:
    """While the node runs, others start on its directory: each is told who holds it."""
    command = [sys.executable, "-m", "swarmd", "start", "--model", "tiny", "--solo", "--metrics-port", "0"]
    others = [
        subprocess.Popen(
            [*command, "--data-dir", str(target.node.data_dir.root)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    for other in others:
        if (code := other.wait(timeout=120)) != Locked.exit_code:
            target.wrong.append(f"a second start ended with {code}")
    return time.monotonic()


def no_memory(target: Target) -> float:
    """The process of the model can have no more memory for some seconds."""
    pid = target.child("generation")
    try:
        size = next(
            int(line.split()[1]) * 1024
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmSize")
        )
        before = resource.prlimit(pid, resource.RLIMIT_AS, (size + 2**20, resource.RLIM_INFINITY))
        time.sleep(target.rng.uniform(2, 5))
        resource.prlimit(pid, resource.RLIMIT_AS, before)
    except (OSError, StopIteration):
        pass  # it died of it, and another one has no such limit
    return time.monotonic()


def flip_bit(path: Path, rng: random.Random) -> None:
    """Change one random bit of a file in place."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        if not size:
            return
        at = rng.randrange(size)
        file.seek(at)
        byte = file.read(1)[0] ^ (1 << rng.randrange(8))
        file.seek(at)
        file.write(bytes([byte]))


def _any_file(target: Target, patterns: tuple[str, ...]) -> Path:
    root = target.node.data_dir.root
    found = sorted(path for pattern in patterns for path in root.glob(pattern) if path.stat().st_size)
    return target.rng.choice(found) if found else root / "rounds.jsonl"


def _restart(target: Target) -> float:
    began_s = time.monotonic()
    target.start()
    return began_s


def _learner(target: Target) -> list[str]:
    return ["update"] if "split" in str(target.swarm.arguments_of.get(target.number)) else ["generation"]


def _restarts(target: Target) -> dict[str, int]:
    told = target.node.ask("/v1/status") or {}
    return {name: worker["restarts"] for name, worker in told.get("workers", {}).items()}


KINDS: dict[str, tuple[int, Fault]] = {
    "kill -9 daemon": (12, kill_daemon),
    "kill -9 model's process": (12, kill_child("generation")),
    "kill -9 learner of a split node": (4, kill_child("update")),
    "kill -9 network": (6, kill_child("network")),
    "kill -9 scorer": (6, kill_child("scorer")),
    "kill -9 zygote": (5, kill_zygote),
    "kill -9 at a system call": (14, kill_at_call),
    "SIGSTOP of a child": (2, stop_child("generation")),
    "SIGSTOP of the network": (1, stop_child("network")),
    "SIGSTOP of the scorer": (1, stop_child("scorer")),
    "SIGSTOP of the daemon, SIGCONT": (3, stop_daemon),
    "disk fails (EIO)": (4, disk(errno.EIO)),
    "disk full (ENOSPC)": (4, disk(errno.ENOSPC)),
    "disk read-only (EROFS)": (4, disk(errno.EROFS)),
    "short writes": (3, disk(short_writes=True)),
    "disk fails, then kill -9": (4, disk_and_kill),
    "start on a bad disk": (3, start_on_a_bad_disk),
    "bit flip: counter": (3, flip("node.sqlite*")),
    "bit flip: buffer": (3, flip("buffer.sqlite", "buffer.sqlite-wal")),
    "bit flip: checkpoint": (3, flip("checkpoints/round-*/*")),
    "bit flip: standings, bans, peers": (3, flip("standings.json", "bans.json", "peers.json")),
    "bit flip: history": (2, flip("rounds.jsonl")),
    "bit flip: identity": (2, flip_identity),
    "clock jumps": (4, clock_jump),
    "clock set back, then a start": (2, clock_back_at_start),
    "two more starts": (2, two_starts),
    "no memory for the model": (3, no_memory),
}
