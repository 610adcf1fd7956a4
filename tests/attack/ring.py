"""What one attack has to work with: its victims, its identities, its clock, and what it counts."""

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from swarmd.protocol.manifest import Manifest
from swarmd.protocol.signing import Identity
from tests.attack.answers import Answers
from tests.attack.peer import HostilePeer, hostile_peer

# Identities that an attack goes through before it takes the first again.
FRESH_MAX = 199

Act = Callable[[HostilePeer], Awaitable[None]]


@dataclass
class Ring:
    """One attack. `victims` are multiaddrs with /p2p/; `markers` and `port` are the traps that code would
    spring, `report` tells the harness what was counted so far; `listen` are free ports,
    `local_ports` those of the victims' metrics; `in_company` says that others attack at the same time."""

    name: str
    seed: int
    manifest: Manifest
    victims: Sequence[str]
    markers: Path
    port: int
    report: Callable[[], None] = lambda: None
    listen: Sequence[int] = ()
    local_ports: Sequence[int] = ()
    in_company: bool = False
    counted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"attack {self.name} {self.seed}")
        self._answers: Answers | None = None
        self.counter = 0

    @property
    def answers(self) -> Answers:
        """Questions and their right answers; made when first needed, since it imports the questions' library."""
        if self._answers is None:
            self._answers = Answers(self.manifest)
        return self._answers

    def identity_seed(self, number: int) -> bytes:
        """The secret of one of this attack's identities."""
        return identity_seed(self.name, self.seed, number)

    def identity(self, number: int = 0) -> Identity:
        """One of this attack's identities."""
        return Identity.from_seed(self.identity_seed(number))

    def dataset(self, name: str) -> int | None:
        """Its number in the manifest, or None."""
        return next((n for n, spec in enumerate(self.manifest.datasets) if spec.name == name), None)

    def counters(self, num: int) -> int:
        """The first of `num` counters not used by this attack before."""
        first, self.counter = self.counter, self.counter + num
        return first

    @asynccontextmanager
    async def peer(self, number: int = 0, *, listens: bool = True) -> AsyncIterator[HostilePeer]:
        """One connected peer."""
        seed = self.identity_seed(number)
        async with hostile_peer(
            seed, self.manifest.topic, self.counted, self.victims, listens=listens
        ) as peer:
            yield peer

    @asynccontextmanager
    async def peers(self, num: int, *, listens: bool = True) -> AsyncIterator[list[HostilePeer]]:
        """Several of them, started at the same time."""
        found: list[HostilePeer] = []

        async def live(number: int, *, task_status: trio.TaskStatus[HostilePeer]) -> None:
            async with self.peer(number, listens=listens) as peer:
                task_status.started(peer)
                await trio.sleep_forever()

        async with trio.open_nursery() as lives:

            async def begin(number: int) -> None:
                found.append(await lives.start(live, number))

            async with trio.open_nursery() as beginnings:
                for number in range(num):
                    beginnings.start_soon(begin, number)
            yield found
            lives.cancel_scope.cancel()

    async def in_turns(self, acts: Iterable[Act], *, per_identity: int = 4, pace_s: float = 0.05) -> None:
        """Do these, with a new identity and new connections after every few: one that was caught is left behind."""
        waiting, number = iter(acts), 1
        while some := list(itertools.islice(waiting, per_identity)):
            async with self.peer(number, listens=False) as peer:
                for act in some:
                    await act(peer)
                    await trio.sleep(pace_s)
            number = number % FRESH_MAX + 1


def hostile_id(name: str, seed: int, number: int = 0) -> str:
    """The peer id of one hostile identity."""
    return Identity.from_seed(identity_seed(name, seed, number)).peer_id


def identity_seed(name: str, seed: int, number: int) -> bytes:
    """32 bytes for one hostile identity; the harness knows them too, to find what it wrote among what was stored and used."""
    return hashlib.sha256(f"swarmd attack {name} {seed} {number}".encode()).digest()
