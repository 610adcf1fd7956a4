"""Where a contributor works: identity, swarm, ledger, and the child processes for as long as they are needed.

A desk beside a running node shares the node's files; each transaction is whole, whoever makes it. Without a node the desk holds the
data directory as a node would. Two nodes of one identity are therefore never in the swarm at once.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import trio

from swarmd import clock
from swarmd.clients.network import Network
from swarmd.clients.scorer import Scorer
from swarmd.clients.worker import Worker
from swarmd.config import Config
from swarmd.contribute.check import Checked, Review, review
from swarmd.contribute.ledger import Ledger
from swarmd.contribute.lines import Line
from swarmd.contribute.outlets import LINGER_S, DaemonOutlet, NetworkOutlet
from swarmd.contribute.send import Delivery, Outlet, Sender
from swarmd.control.client import ask
from swarmd.errors import ConfigError, NotRunning
from swarmd.experience.counters import QuestionCounter
from swarmd.experience.seeds import Seeds
from swarmd.files.datadir import DataDir, claim
from swarmd.files.lock import Lock
from swarmd.loops.ask import Ask, Question, datasets_named
from swarmd.loops.ports import Say
from swarmd.node.children import network_spec, scorer_spec
from swarmd.node.own import open_counter, own_identity
from swarmd.node.parts import find_manifest
from swarmd.policy.state.checkpoints import read_state
from swarmd.processes.supervise import Child, ChildSpec
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.signing import Identity

# Loopback only: nobody has to reach a process that only sends.
LISTEN = "/ip4/127.0.0.1/tcp/0"


@dataclass
class Desk:
    """What one command works with. `counter` opens the question counter; `beside_node`: a node runs in this data directory;
    `held`: the descriptors of its lock, which its processes hold too."""

    config: Config
    data_dir: DataDir
    seed: bytes
    identity: Identity
    manifest: Manifest
    ledger: Ledger
    counter: Callable[[], QuestionCounter]
    beside_node: bool
    say: Say
    held: tuple[int, ...] = ()

    async def ask(self, num: int, tasks: Sequence[str]) -> list[Question]:
        """New questions of the datasets with these names (all, without names), remembered before they are shown."""
        datasets = datasets_named(self.manifest, tasks)
        async with _running(self._scorer()) as scorer:
            return await self.draw(num, datasets, scorer)

    async def draw(self, num: int, datasets: Sequence[int], scorer: Worker) -> list[Question]:
        """`num` questions of these datasets, of counters that were never given out; those that are lost on the way are gaps."""
        with contextlib.closing(self.counter()) as counter:
            ask = Ask(
                scorer=Scorer(scorer, self.config.questions.deadline_s),
                manifest=self.manifest,
                author=self.identity.public_key,
                seeds=Seeds(self.seed, self.manifest.digest),
                reserve_counters=counter.reserve,
                run_blocking=trio.to_thread.run_sync,
                datasets=datasets,
            )
            questions = await ask.questions(num)
        self.ledger.ask(self.manifest.digest, [(one.dataset, one.counter) for one in questions])
        return questions

    async def review(self, lines: Sequence[Line]) -> Review:
        """What becomes of a file's lines; see `check.review`."""
        async with _running(self._scorer()) as scorer:
            return await review(
                lines,
                self.ledger.find(line.counter for line in lines),
                scorer=Scorer(scorer, self.config.questions.deadline_s),
                manifest=self.manifest,
                author=self.identity.public_key,
            )

    async def send(self, rollouts: Sequence[Checked], *, policy: str, patience_s: float) -> list[Delivery]:
        """Publish these: through the node, or by a network process of our own. Raises as `Sender.send`."""

        async def deliver(outlet: Outlet) -> list[Delivery]:
            sender = Sender(
                outlet, self.ledger, self.identity, self.manifest, policy, patience_s, clock.now_ms, self.say
            )
            digests = {checked.rollout.counter: checked.line.digest for checked in rollouts}
            return await sender.send([checked.rollout for checked in rollouts], digests)

        if self.beside_node:
            return await deliver(DaemonOutlet(self.data_dir.socket))
        async with _running(self._network()) as network:
            deliveries = await deliver(NetworkOutlet(Network(network)))
            await trio.sleep(LINGER_S)
            return deliveries

    def _scorer(self) -> ChildSpec:
        spec = scorer_spec(self.config, self.manifest, self.data_dir.log("contribute-scorer"))
        return replace(spec, held=self.held)

    def _network(self) -> ChildSpec:
        swarm = self.config.swarm.model_copy(update={"listen": LISTEN, "announce": ""})
        config = self.config.model_copy(update={"swarm": swarm})
        log_path = self.data_dir.log("contribute-network")
        return replace(
            network_spec(config, self.data_dir, log_path, self.seed, self.manifest), held=self.held
        )


@contextlib.contextmanager
def open_desk(config: Config, data_dir: DataDir, *, swarm_named: bool, say: Say) -> Iterator[Desk]:
    """A desk in this data directory, closed at the end.

    Args:
        swarm_named: whether the command names the swarm; else that of the running node is taken, if one runs.

    Raises:
        Locked: a node is starting, or another command works here without one.
        ConfigError: the node that runs here is of another swarm, or has no network. StateError: the files cannot be used.
    """
    claim(data_dir)
    running = _manifest_of_node(data_dir)
    lock = Lock(data_dir, say=say) if running is None else None
    held = () if lock is None else (lock.fd,)
    try:
        state = read_state(data_dir.checkpoints) or {}
        if running is None:
            manifest = find_manifest(config, data_dir, state)
        else:
            manifest = running
            if swarm_named and find_manifest(config, data_dir, {}).digest != running.digest:
                raise ConfigError(
                    f"the node in {data_dir.root} is of the swarm {running.name} ({running.digest.hex()[:16]})",
                    "another one is named",
                    "leave --swarm out, or use another --data-dir",
                )
        seed, identity, new = own_identity(data_dir, state)
        if new:
            say(f"new identity {identity.peer_id}; back up {data_dir.identity}")
        with contextlib.closing(Ledger(data_dir.contributed, identity.public_key)) as ledger:
            counter = partial(open_counter, data_dir, state, new=new)
            beside = running is not None
            yield Desk(config, data_dir, seed, identity, manifest, ledger, counter, beside, say, held)
    finally:
        if lock is not None:
            lock.release()


def _manifest_of_node(data_dir: DataDir) -> Manifest | None:
    """The swarm of the node that runs here, or None without one."""
    try:
        if ask(data_dir.socket, "/v1/status")["swarm"]["solo"]:
            raise ConfigError(
                f"the node in {data_dir.root} has no network (swarm.solo)",
                fix="stop it, or contribute from another --data-dir",
            )
        return Manifest.from_bytes(bytes.fromhex(ask(data_dir.socket, "/v1/manifest")["manifest"]))
    except NotRunning:
        return None


@contextlib.asynccontextmanager
async def _running(spec: ChildSpec) -> AsyncIterator[Child]:
    """A started child, which ends with the block."""
    async with trio.open_nursery() as nursery:
        child = Child(spec)
        await nursery.start(child.run)
        yield child
        nursery.cancel_scope.cancel()
