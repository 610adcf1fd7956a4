"""The parts of one node that need no child process: identity, model, manifest, buffer. `swarmd.node.life` brings them to life."""

from dataclasses import dataclass, field
from pathlib import Path

import trio

from swarmd import __version__, clock
from swarmd.clients.generator import Generator
from swarmd.clients.learner import Learner
from swarmd.clients.network import Network
from swarmd.clients.policy import PolicyInfo, State
from swarmd.clients.scorer import Scorer
from swarmd.clients.worker import Worker, started
from swarmd.config import Config
from swarmd.config.sections import SwarmSettings
from swarmd.errors import StateError
from swarmd.experience.buffer import SwarmBuffer
from swarmd.experience.counters import QuestionCounter
from swarmd.experience.pools import LocalPool
from swarmd.files.datadir import DataDir
from swarmd.loops.ask import datasets_named
from swarmd.loops.pace import Pace
from swarmd.loops.ports import NowMs, RunBlocking, Say
from swarmd.loops.progress import Progress
from swarmd.metrics import Metrics
from swarmd.node.checkpoints import begin_checkpoints
from swarmd.node.children import (
    Placement,
    count_gpus,
    place,
    weights_directory,
)
from swarmd.node.known import open_trust
from swarmd.node.memory_plan import MemoryPlan, begin
from swarmd.node.own import open_counter, own_identity
from swarmd.policy.model.resolve import TINY, ResolvedModel, resolve_device, resolve_model
from swarmd.policy.plans.needs import Where
from swarmd.policy.plans.room import num_oom_kills
from swarmd.policy.state.checkpoints import read_state
from swarmd.protocol.manifest import Manifest, load_manifest
from swarmd.protocol.rules import VERDICT_OF, Verdict
from swarmd.protocol.signing import Identity
from swarmd.swarm import addresses
from swarmd.swarm.bootstrap_list import BootstrapList
from swarmd.trust.trust import Trust

# The rules by which a message is not accepted: the values of a metric's label.
REFUSALS = [rule for rule, verdict in VERDICT_OF.items() if verdict is not Verdict.ACCEPT]


def check_addresses(settings: SwarmSettings, data_dir: DataDir) -> None:
    """Raises ConfigError where the network process could not use an address, before anything is started."""
    addresses.parse_listen(settings.listen)
    if settings.announce:
        addresses.parse_announce(settings.announce)
    for text in settings.bootstrap:
        addresses.parse_setting(text, "swarm.bootstrap")
    BootstrapList(data_dir.bootstrap).read()


@dataclass
class Node:
    """The parts of one node, all in one place because `wiring` makes every loop out of them. `life` adds the children.

    `datasets` are the numbers of the datasets that it asks.
    """

    config: Config
    data_dir: DataDir
    say: Say
    seed: bytes
    identity: Identity
    manifest: Manifest
    datasets: list[int]
    model: ResolvedModel
    placement: Placement
    buffer: SwarmBuffer
    counter: QuestionCounter
    metrics: Metrics
    progress: Progress
    memory: MemoryPlan
    trust: Trust
    plan_key: str
    weights_dir: Path | None
    rounds_max: int | None
    pace: Pace
    children: dict[str, Worker] = field(default_factory=dict)
    now_ms: NowMs = clock.now_ms
    run_blocking: RunBlocking = trio.to_thread.run_sync

    @property
    def scorer(self) -> Scorer:
        """The child that makes questions and scores answers."""
        return Scorer(self.children["scorer"], self.config.questions.deadline_s)

    @property
    def network(self) -> Network | None:
        """The child that speaks to the swarm; None for a node alone."""
        return Network(self.children["network"]) if "network" in self.children else None

    @property
    def generator(self) -> Generator:
        """The child that generates, once it has started."""
        worker = self.children["generation"]
        info = started(worker, PolicyInfo)
        assert info is not None
        return Generator(worker, self.config.policy.temperature, info.tokens_max)

    @property
    def learner(self) -> Learner:
        """The child that updates; the one that generates in a shared placement."""
        return Learner(self.children.get("update", self.children["generation"]))

    @property
    def resumed(self) -> PolicyInfo:
        """The learner's answer when it started: what it went on from."""
        info = started(self.learner.worker, PolicyInfo)
        assert info is not None
        return info


def build(config: Config, data_dir: DataDir, *, rounds_max: int | None, say: Say) -> Node:
    """Everything that needs no child process: identity, model, manifest, buffer.

    Raises:
        SwarmdError: settings or a data directory with which no node can start.
    """
    say(f"swarmd {__version__}")
    if not config.swarm.solo:
        check_addresses(config.swarm, data_dir)
    state = read_state(data_dir.checkpoints) or {}
    seed, identity, new = own_identity(data_dir, state)
    say(f"✓ identity   {identity.peer_id}{' (new; back up ' + str(data_dir.identity) + ')' if new else ''}")
    model = resolve_model(config.policy.model)
    device = resolve_device(config.policy.device, config.policy.model)
    placement = place(config.policy.placement, device, count_gpus(), config.update.devices)
    say(f"✓ model      {config.policy.model} on {device}, {placement.kind}")
    beginning = begin(config, model, placement, state, say)
    pace = begin_checkpoints(config.checkpoint, data_dir, model, placement.update, say)
    manifest = find_manifest(config, data_dir, state)
    say(f"✓ swarm      {manifest.name} · {len(manifest.datasets)} datasets · topic {manifest.topic}")
    datasets = datasets_named(manifest, config.questions.datasets)
    if config.questions.datasets:
        say(
            f"✓ questions  of {', '.join(sorted({manifest.datasets[number].name for number in datasets}))} only"
        )
    staleness = config.experience.staleness_max
    progress = Progress(
        LocalPool(staleness_max=staleness if staleness >= 0 else int(placement.kind == "split"))
    )
    progress.plan = beginning.plan
    metrics = Metrics([d.name for d in manifest.datasets], REFUSALS)
    buffer = _open_buffer(config, data_dir, manifest, say)
    metrics.state_damaged.labels("buffer").inc(len(buffer.moved_aside))
    counter = open_counter(data_dir, state, new=new)
    if counter.note:
        metrics.state_damaged.labels("counters").inc()
        say(f"! questions  {counter.note}")
    return Node(
        config=config,
        data_dir=data_dir,
        say=say,
        seed=seed,
        identity=identity,
        manifest=manifest,
        datasets=datasets,
        model=model,
        placement=placement,
        buffer=buffer,
        counter=counter,
        metrics=metrics,
        progress=progress,
        memory=MemoryPlan(beginning.plans, progress, metrics, say, num_oom_kills, lambda: pace.saved_round),
        trust=open_trust(config, data_dir, metrics, say),
        plan_key=beginning.key,
        weights_dir=(
            weights_directory(
                data_dir, model, identity.peer_id, element_bytes=Where(placement.update).element_bytes
            )
            if placement.kind == "split"
            else None
        ),
        rounds_max=rounds_max,
        pace=pace,
    )


def find_manifest(config: Config, data_dir: DataDir, state: State) -> Manifest:
    """The configured swarm's manifest; `state` is that of the newest checkpoint, empty where there is none.

    Raises:
        ConfigError: no such manifest. StateError: the data directory was used in another swarm.
    """
    name = config.swarm.name
    if name == "auto":
        name = "tiny" if config.policy.model == TINY else "reasoning"
    manifest = load_manifest(name)
    if state.get("manifest") not in (None, manifest.digest.hex()):
        raise StateError(
            f"{data_dir.root} belongs to another swarm (manifest {str(state['manifest'])[:16]})",
            f"this start names {manifest.name} ({manifest.digest.hex()[:16]})",
            "use another --data-dir for another swarm",
        )
    return manifest


def _open_buffer(config: Config, data_dir: DataDir, manifest: Manifest, say: Say) -> SwarmBuffer:
    experience = config.experience
    buffer = SwarmBuffer(
        data_dir.buffer,
        rollouts_max=experience.rollouts_max,
        size_bytes_max=experience.size_bytes_max,
        author_share_max=1.0 if experience.source == "own" else experience.author_share_max,
        uses_max=experience.uses_max,
        age_s_max=experience.age_s_max,
        digest=manifest.digest,
    )
    for path in buffer.moved_aside:
        say(
            f"! buffer     the database is damaged or of an older swarmd; it lies in {path}, and an empty one was started"
        )
    return buffer
