"""The whole node: builds every part, wires them, and opens the nurseries. Read this first.

Order of a start: settings, lock, identity, manifest, model (before anything is downloaded or spawned), buffer, control socket, the
child processes side by side, then the loops. The network outlives the loops: a node that finishes its last round still gossips
until its own rollouts are out. Everything is crash-only: an orderly stop saves time, never data.
"""

import json
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import trio

from swarmd import __version__
from swarmd.config import Config
from swarmd.control.http import Request, Response, as_json
from swarmd.control.server import open_tcp, open_unix, router, serve
from swarmd.datadir import DataDir, Lock, load_identity_seed
from swarmd.errors import StateError
from swarmd.experience.buffer import SwarmBuffer
from swarmd.experience.pools import LocalPool
from swarmd.loops.evaluate import Evaluate
from swarmd.loops.generate import Generate, OwnBatch
from swarmd.loops.ingest import INBOX_MAX, Ingest
from swarmd.loops.observe import Observe, measure_lag
from swarmd.loops.progress import Progress
from swarmd.loops.share import OUTBOX_MAX, Share
from swarmd.loops.status import About, id_document, peers_document, status_document
from swarmd.loops.streams import Streams
from swarmd.loops.update import Update
from swarmd.metrics import Metrics
from swarmd.policy.checkpoints import read_state
from swarmd.policy.models import ResolvedModel, download_model, resolve_device, resolve_model
from swarmd.processes.supervise import Child, ChildSpec
from swarmd.protocol.manifest import Manifest, load_manifest
from swarmd.protocol.rules import RULES
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import Identity

log = logging.getLogger(__name__)
# A generation batch or an update that takes longer hangs: on a CPU a 0.5 B model needs minutes.
STEP_DEADLINE_S = 3600.0
# The model's own defaults. The embedded policy is small and its answers short: measured, see swarmd/tiny. 1e-6 is what the public
# trainers of this algorithm use for real models; the paper's text says 1e-3, at which a 0.5 B policy falls apart.
TINY_LEARNING_RATE, LEARNING_RATE = 3e-4, 1e-6
TINY_TOKENS_MAX, TOKENS_MAX = 16, 256
Say = Callable[[str], None]


@dataclass
class Node:
    """The parts of one node that do not change between its loops. `build` makes it; `run` lives it."""

    config: Config
    data_dir: DataDir
    say: Say
    seed: bytes
    identity: Identity
    manifest: Manifest
    model: ResolvedModel
    model_dir: Path | None
    device: str
    placement: str
    buffer: SwarmBuffer
    metrics: Metrics
    progress: Progress
    streams: Streams
    weights_dir: Path
    rounds_max: int | None
    children: dict[str, Child] = field(default_factory=dict)
    started_ms: int = field(default_factory=lambda: now_ms())

    @property
    def solo(self) -> bool:
        """Without a network."""
        return self.config.swarm.solo


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


async def run_node(
    config: Config, data_dir: DataDir, *, rounds_max: int | None, explicit: set[str], say: Say
) -> None:
    """Run a node until it is asked to stop, or has done `rounds_max` rounds.

    Args:
        explicit: the `section.key` settings that the operator gave, whose defaults therefore must not give way.
        say: prints one line for the person at the terminal.

    Raises:
        SwarmdError: with the exit code of what went wrong at the start.
    """
    lock = Lock(data_dir)
    try:
        node = build(config, data_dir, rounds_max=rounds_max, say=say)
        try:
            node.model_dir = await trio.to_thread.run_sync(_download, node, abandon_on_cancel=True)
            await _live(node, explicit)
        finally:
            node.buffer.close()
            shutil.rmtree(node.weights_dir, ignore_errors=True)
    finally:
        lock.release()


def build(config: Config, data_dir: DataDir, *, rounds_max: int | None, say: Say) -> Node:
    """Everything that needs no child process: identity, manifest, model, buffer."""
    say(f"swarmd {__version__}")
    seed, new = load_identity_seed(data_dir)
    identity = Identity.from_seed(seed)
    say(f"✓ identity   {identity.peer_id}{' (new; back up ' + str(data_dir.identity) + ')' if new else ''}")
    model = resolve_model(config.policy.model)
    device = resolve_device(config.policy.device, config.policy.model)
    say(f"✓ model      {config.policy.model} on {device}")
    name = config.swarm.name
    if name == "auto":
        name = "tiny" if model.kind == "tiny" else "reasoning"
    manifest = load_manifest(name)
    say(f"✓ swarm      {manifest.name} · {len(manifest.datasets)} datasets · topic {manifest.topic}")
    state = read_state(data_dir.checkpoints) or {}
    if state.get("manifest") not in (None, manifest.digest.hex()):
        raise StateError(
            f"{data_dir.root} belongs to another swarm (manifest {str(state['manifest'])[:16]})",
            f"this start names {manifest.name} ({manifest.digest.hex()[:16]})",
            "use another --data-dir for another swarm",
        )
    buffer = SwarmBuffer(
        data_dir.buffer,
        rollouts_max=config.experience.rollouts_max,
        size_bytes_max=config.experience.size_bytes_max,
        author_share_max=config.experience.author_share_max,
        uses_max=config.experience.uses_max,
        age_s_max=config.experience.age_s_max,
        strategy=config.experience.strategy,
        digest=manifest.digest,
    )
    for path in buffer.moved_aside:
        say(f"! buffer     the database was damaged; it lies in {path}, and an empty one was started")
    placement = config.policy.placement if config.policy.placement != "auto" else "shared"
    staleness = config.experience.staleness_max
    progress = Progress(
        LocalPool(staleness_max=staleness if staleness >= 0 else (1 if placement == "split" else 0)),
        round=int(state.get("round", 0)),
        policy_version=int(state.get("policy_version", 0)),
        used_by_author=dict(state.get("used_by_author", {})),
        num_shared=int(state.get("num_shared", 0)),
        num_received=int(state.get("num_received", 0)),
    )
    if progress.round:
        say(f"✓ resumed    after round {progress.round}")
    return Node(
        config=config,
        data_dir=data_dir,
        say=say,
        seed=seed,
        identity=identity,
        manifest=manifest,
        model=model,
        model_dir=model.path,
        device=device,
        placement=placement,
        buffer=buffer,
        metrics=Metrics([d.name for d in manifest.datasets], RULES),
        progress=progress,
        streams=Streams(seed, manifest.digest),
        weights_dir=_weights_dir(data_dir, model),
        rounds_max=rounds_max,
    )


def _download(node: Node) -> Path:
    """The model's folder; a download says how far it is about once a second."""

    def progress(name: str, data: dict[str, Any]) -> None:
        if name == "download":
            node.say(f"  download   {data['done_bytes'] / 1e6:.0f}/{data['total_bytes'] / 1e6:.0f} MB")

    return download_model(node.model, progress)


def _weights_dir(data_dir: DataDir, model: ResolvedModel) -> Path:
    """Where a split placement hands weights over: memory, where there is a memory file system with room for two versions."""
    shared, parent = Path("/dev/shm"), data_dir.root
    if shared.is_dir() and os.access(shared, os.W_OK):
        size_bytes = 4 * (model.num_parameters or 0)
        if shutil.disk_usage(shared).free > 2 * size_bytes + 2**24:
            parent = shared
    return Path(tempfile.mkdtemp(prefix="swarmd-weights-", dir=parent))


# ---------------------------------------------------------------- child processes


def policy_settings(config: Config, model: ResolvedModel) -> dict[str, Any]:
    """What the policy reads, as one plain dict, with the model's own defaults where the configuration says 0."""
    settings = config.policy.model_dump() | config.update.model_dump()
    tiny = model.kind == "tiny"
    settings["learning_rate"] = settings["learning_rate"] or (TINY_LEARNING_RATE if tiny else LEARNING_RATE)
    settings["tokens_max"] = settings["tokens_max"] or (TINY_TOKENS_MAX if tiny else TOKENS_MAX)
    settings["checkpoints_keep"] = config.checkpoint.keep
    return settings


def _child_specs(node: Node) -> dict[str, ChildSpec]:
    """Which children this node has: the placement decides whether generation and update are one or two."""
    threads = {"OMP_NUM_THREADS": str(node.config.policy.threads)} if node.config.policy.threads else {}

    def spec(name: str, service: str, args: Callable[[], dict[str, Any]], **env: str) -> ChildSpec:
        return ChildSpec(name, service, args, node.data_dir.log(name), env=env)

    def policy(*roles: str) -> Callable[[], dict[str, Any]]:
        return lambda: {
            "roles": list(roles),
            "model_dir": str(node.model_dir),
            "device": node.device,
            "threads": node.config.policy.threads,
            "settings": policy_settings(node.config, node.model),
            "checkpoints_dir": str(node.data_dir.checkpoints),
        }

    specs = {
        "scorer": spec(
            "scorer",
            "swarmd.questions.service:ScorerService",
            lambda: {"manifest": node.manifest.to_bytes(), "sandbox": node.config.questions.sandbox},
        )
    }
    service = "swarmd.policy.service:PolicyService"
    if node.placement == "split":
        specs["generation"] = spec("generation", service, policy("generate"), **threads)
        specs["update"] = spec("update", service, policy("update"), **threads)
    else:
        specs["generation"] = spec("generation", service, policy("generate", "update"), **threads)
    if not node.solo:
        swarm = node.config.swarm
        specs["network"] = spec(
            "network",
            "swarmd.swarm.service:NetworkService",
            lambda: {
                "identity_seed": node.seed,
                "manifest": node.manifest.to_bytes(),
                "listen": swarm.listen,
                "announce": swarm.announce or None,
                "bootstrap": list(swarm.bootstrap),
                "peers_path": str(node.data_dir.peers),
                "limits": {},
            },
        )
    return specs


# ---------------------------------------------------------------- life


async def _live(node: Node, explicit: set[str]) -> None:
    control = await open_unix(node.data_dir.socket)
    host = node.config.control.metrics_host
    tcp, port = await open_tcp(
        host, node.config.control.metrics_port, explicit="control.metrics_port" in explicit
    )
    node.say(f"✓ metrics    http://{host}:{port}/metrics")
    inbox_in, inbox_out = trio.open_memory_channel[bytes](INBOX_MAX)

    def on_event(name: str, data: dict[str, Any]) -> None:
        if name == "batch":
            try:
                inbox_in.send_nowait(data["data"])
            except trio.WouldBlock:
                node.metrics.buffer_discarded.labels("queue_full").inc()

    def on_restart(name: str, reason: str) -> None:
        node.metrics.worker_restarts.labels(name, reason).inc()

    for name, spec in _child_specs(node).items():
        node.children[name] = Child(
            spec,
            on_event=on_event if name == "network" else None,
            on_restart=partial(on_restart, name),
        )
    async with trio.open_nursery() as processes:
        processes.start_soon(_signals, node)
        await _start_children(node, processes)
        about = _about(node, f"http://{host}:{port}/metrics")
        node.metrics.node_info.labels(about.peer_id, about.model, about.swarm).set(1)
        processes.start_soon(serve, control, router(_routes(node, about)))
        processes.start_soon(serve, tcp, router(_public_routes(node), hosts=frozenset({host})))
        processes.start_soon(measure_lag, node.metrics)
        node.metrics.ready.set(1)
        node.say(
            f"Running. look: swarmd status --data-dir {node.data_dir.root}   stop: Ctrl-C (twice: at once)\n"
        )
        await _loops(node, inbox_out)
        node.say(f"Stopped after round {node.progress.round}; the state is in {node.data_dir.root}")
        processes.cancel_scope.cancel()
    node.data_dir.socket.unlink(missing_ok=True)


async def _start_children(node: Node, nursery: trio.Nursery) -> None:
    """Start all children at once: imports are most of the time, and none needs another."""
    node.say(f"… starting   {', '.join(node.children)}")
    infos: dict[str, dict[str, Any]] = {}
    async with trio.open_nursery() as starting:

        async def start(name: str) -> None:
            infos[name] = await nursery.start(node.children[name].run)
            node.say(f"✓ {name:<10} {_summary(name, infos[name])}")
            for line in infos[name].get("skipped", ()):
                node.say(f"! checkpoint {line}")

        for name in node.children:
            starting.start_soon(start, name)
    learner = infos.get("update", infos["generation"])
    node.progress.policy_version = learner["policy_version"]
    node.progress.round = int(learner["state"].get("round", node.progress.round))


def _summary(name: str, info: dict[str, Any]) -> str:
    if name == "network":
        return f"{', '.join(info['addresses'])}"
    if name == "scorer":
        return f"sandbox: {info['sandbox']}"
    return f"{info['engine']} · {info['num_parameters'] / 1e6:.2f} M parameters · policy version {info['policy_version']}"


def _about(node: Node, metrics_url: str) -> About:
    generation = node.children["generation"].info
    network = node.children["network"].info if "network" in node.children else {}
    return About(
        pid=os.getpid(),
        started_ms=node.started_ms,
        peer_id=node.identity.peer_id,
        public_key=node.identity.public_key.hex(),
        addresses=tuple(network.get("addresses", ())),
        swarm=node.manifest.name,
        topic=node.manifest.topic,
        model=node.config.policy.model,
        num_parameters=generation["num_parameters"],
        device=generation["device"],
        placement=node.placement,
        sandbox=str(node.children["scorer"].info["sandbox"]),
        num_local=node.config.experience.num_local,
        num_external=0 if node.solo else node.config.experience.num_external,
        data_dir=str(node.data_dir.root),
        metrics_url=metrics_url,
        solo=node.solo,
    )


async def _loops(node: Node, inbox: trio.MemoryReceiveChannel[bytes]) -> None:
    """The four verbs and the observer, until the update loop is done."""
    config, network = node.config, node.children.get("network")
    outbox_in, outbox_out = trio.open_memory_channel[OwnBatch](OUTBOX_MAX)
    run_blocking = trio.to_thread.run_sync
    generator, learner = node.children["generation"], node.children.get("update", node.children["generation"])
    tokens_max = generator.info["tokens_max"]
    generate = Generate(
        generator=generator,
        scorer=node.children["scorer"],
        manifest=node.manifest,
        author=node.identity.public_key,
        streams=node.streams,
        progress=node.progress,
        metrics=node.metrics,
        reserve_counters=node.buffer.reserve_counters,
        run_blocking=run_blocking,
        outbox=outbox_in if network else None,
        now_ms=now_ms,
        num_rollouts=config.experience.num_local,
        num_completions=config.experience.completions,
        temperature=config.policy.temperature,
        tokens_max=tokens_max,
        deadline_s=config.questions.deadline_s,
    )
    evaluate = Evaluate(
        generator=generator,
        scorer=node.children["scorer"],
        manifest=node.manifest,
        now_ms=now_ms,
        num_questions=config.evaluate.num_questions,
        num_completions=config.evaluate.completions,
        temperature=config.policy.temperature,
        tokens_max=tokens_max,
        deadline_s=config.questions.deadline_s,
    )
    update = Update(
        learner=learner,
        draw=lambda num, rng: node.buffer.sample(num, rng, now_ms=now_ms()),
        run_blocking=run_blocking,
        streams=node.streams,
        manifest=node.manifest,
        progress=node.progress,
        metrics=node.metrics,
        now_ms=now_ms,
        num_external=0 if node.solo else config.experience.num_external,
        checkpoint_every_rounds=config.checkpoint.every_rounds,
        evaluate=evaluate if config.evaluate.num_questions else None,
        evaluate_every_rounds=config.evaluate.every_rounds,
        rounds_max=node.rounds_max,
        on_round=lambda record: _report(node, record),
        on_evaluation=lambda result: _report_evaluation(node, result),
        hand_over=_hand_over(node, learner, generator) if learner is not generator else None,
    )
    observe = Observe(
        network=network,
        counts=lambda: node.buffer.counts(now_ms()),
        run_blocking=run_blocking,
        root=node.data_dir.root,
        workers_up=lambda: {name: child.up for name, child in node.children.items()},
        progress=node.progress,
        metrics=node.metrics,
    )
    async with trio.open_nursery() as loops:
        loops.start_soon(observe.run)
        loops.start_soon(generate.run)
        if network:
            share = Share(
                outbox=outbox_out,
                network=network,
                identity=node.identity,
                manifest=node.manifest,
                policy_name=config.policy.model[-64:],
                progress=node.progress,
                metrics=node.metrics,
            )
            ingest = Ingest(
                inbox=inbox,
                scorer=node.children["scorer"],
                manifest=node.manifest,
                author=node.identity.public_key,
                seen=Seen(),
                add=lambda verified, prompts, rewards: node.buffer.add(
                    verified, prompts, rewards, received_ms=now_ms()
                ),
                run_blocking=run_blocking,
                progress=node.progress,
                metrics=node.metrics,
                now_ms=now_ms,
                deadline_s=config.questions.deadline_s,
            )
            loops.start_soon(share.run)
            loops.start_soon(ingest.run)
        await update.run()
        loops.cancel_scope.cancel()


def _hand_over(node: Node, learner: Child, generator: Child) -> Callable[[], Any]:
    """Bring the newest weights from the update child to the generation child through a file in memory."""

    async def hand_over() -> None:
        published = await learner.call(
            "publish_weights", directory=str(node.weights_dir), within_s=STEP_DEADLINE_S
        )
        await generator.call("load_weights", **published, within_s=STEP_DEADLINE_S)

    return hand_over


# ---------------------------------------------------------------- reports


def _report(node: Node, record: dict[str, Any]) -> None:
    with node.data_dir.rounds.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    node.say(round_line(record, len({p["peer_id"] for p in node.progress.network.get("peers", [])})))


def round_line(record: dict[str, Any], num_peers: int) -> str:
    """One round for the terminal."""
    clock = time.strftime("%H:%M:%S", time.localtime(record["time_ms"] / 1000))
    external = "  -  " if record["reward_external"] is None else f"{record['reward_external']:.3f}"
    short = f" ({record['shortfall']} short)" if record["shortfall"] else ""
    loss = (
        "skipped: " + record["skipped"] if record.get("skipped") else f"loss {record.get('loss') or 0.0:+.4f}"
    )
    return (
        f"{clock} round {record['round']:<5} reward {record['reward_own']:.3f} own {external} external   "
        f"{record['num_own']}+{record['num_external']}{short}   {loss}   {record.get('seconds', 0.0):.2f} s   {num_peers} peers"
    )


def _report_evaluation(node: Node, result: dict[str, Any]) -> None:
    with node.data_dir.evaluations.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
    node.say(
        f"held-out    {result['mean']:.4f} ± {result['standard_error']:.4f} "
        f"({result['num_completions']} completions, round {result['round']})"
    )


def _routes(node: Node, about: About) -> dict[tuple[str, str], Any]:
    """What the operator's socket answers."""

    def workers() -> dict[str, dict[str, Any]]:
        return {
            name: {"up": child.up, "pid": child.pid, "restarts": child.num_restarts}
            for name, child in node.children.items()
        }

    async def status(request: Request) -> Response:
        return as_json(status_document(about, node.progress, workers(), now_ms()))

    async def peers(request: Request) -> Response:
        return as_json(peers_document(node.progress))

    async def identity(request: Request) -> Response:
        return as_json(id_document(about))

    async def rounds(request: Request) -> Response:
        last = request.query.get("last", "100")
        if not last.isdigit():
            return as_json({"error": "last is a number"}, 400)
        records = list(node.progress.rounds)[-int(last) :] if int(last) else []
        return as_json({"rounds": records, "evaluations": node.progress.evaluations})

    async def stop(request: Request) -> Response:
        node.progress.request_stop(evaluate=request.query.get("evaluate") == "1")
        return as_json({"stopping": True})

    return {
        ("GET", "/v1/status"): status,
        ("GET", "/v1/peers"): peers,
        ("GET", "/v1/id"): identity,
        ("GET", "/v1/rounds"): rounds,
        ("POST", "/v1/stop"): stop,
        **_public_routes(node),
    }


def _public_routes(node: Node) -> dict[tuple[str, str], Any]:
    """What Prometheus and probes may see."""

    async def metrics(request: Request) -> Response:
        return Response(node.metrics.render(), content_type="text/plain; version=0.0.4; charset=utf-8")

    async def healthz(request: Request) -> Response:
        return Response(b"ok\n")

    async def readyz(request: Request) -> Response:
        down = [name for name, child in node.children.items() if not child.up]
        return Response(f"not ready: {', '.join(down)}\n".encode(), 503) if down else Response(b"ready\n")

    return {("GET", "/metrics"): metrics, ("GET", "/healthz"): healthz, ("GET", "/readyz"): readyz}


async def _signals(node: Node) -> None:
    """The first Ctrl-C or SIGTERM ends the node after the round under way, the second at once."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async for _ in received:
            if node.progress.stop_requested:
                raise KeyboardInterrupt
            node.say("\nstopping after this round; press Ctrl-C again to stop now")
            node.progress.request_stop()
