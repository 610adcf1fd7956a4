"""A node's life: builds every part, wires them, and opens the nurseries. Read this first.

A start goes: lock, identity, model (named and found before anything is downloaded or spawned), manifest, buffer (`parts`), control
sockets, the child processes side by side (`launch`), then the loops. The children and sockets outlive the loops: a last evaluation
needs the ones, and whoever asked for the stop still gets answers from the others. Everything is crash-only: an orderly stop saves
time, never data.
"""

import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio

from swarmd.api import Api
from swarmd.config import Config
from swarmd.control.server import open_tcp, open_unix, router, serve
from swarmd.datadir import DataDir, Lock
from swarmd.launch import child_specs, summary
from swarmd.loops.evaluate import Evaluate
from swarmd.loops.generate import Generate, OwnBatch
from swarmd.loops.ingest import INBOX_MAX, Ingest
from swarmd.loops.observe import Observe, measure_lag
from swarmd.loops.ports import Say
from swarmd.loops.report import Report
from swarmd.loops.share import OUTBOX_MAX, Share
from swarmd.loops.streams import Streams
from swarmd.loops.update import Update
from swarmd.parts import Node, build
from swarmd.policy.model.resolve import download_model
from swarmd.processes.supervise import Child
from swarmd.protocol.seen import Seen

# A hand-over of weights that takes longer hangs: half a billion parameters take seconds.
HAND_OVER_S = 600.0


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
        SwarmdError: with the exit code of what went wrong at the start; DiskFull also when the last rounds could not be saved.
    """
    lock = Lock(data_dir)
    try:
        node = build(config, data_dir, rounds_max=rounds_max, say=say)
        try:
            model_dir = await trio.to_thread.run_sync(_download, node, abandon_on_cancel=True)
            await _live(node, model_dir, explicit)
        finally:
            node.buffer.close()
            if node.weights_dir is not None:
                shutil.rmtree(node.weights_dir, ignore_errors=True)
    finally:
        lock.release()
    if error := node.progress.checkpoint_error:
        raise type(error)(
            f"the rounds since the last checkpoint are lost: {error.what}", error.why, error.fix
        )


def _download(node: Node) -> Path:
    """The model's folder; a download says how far it is about once a second."""

    def progress(name: str, data: dict[str, Any]) -> None:
        if name == "download":
            node.say(f"  download   {data['done_bytes'] / 1e6:.0f}/{data['total_bytes'] / 1e6:.0f} MB")

    return download_model(node.model, progress)


async def _live(node: Node, model_dir: Path, explicit: set[str]) -> None:
    """Sockets and children first, then the loops inside; leaving ends all of them."""
    host = node.config.control.metrics_host
    tcp, port = await open_tcp(
        host, node.config.control.metrics_port, explicit="control.metrics_port" in explicit
    )
    unix = await open_unix(node.data_dir.socket)
    node.say(f"✓ metrics    http://{host}:{port}/metrics")
    inbox_in, inbox_out = trio.open_memory_channel[bytes](INBOX_MAX)
    _make_children(node, model_dir, inbox_in)
    api = Api(
        _facts(node, f"http://{host}:{port}/metrics"), node.children, node.progress, node.metrics, now_ms
    )
    async with trio.open_nursery() as processes:
        processes.start_soon(_signals, node, processes.cancel_scope)
        processes.start_soon(serve, unix, router(api.operator_routes()))
        processes.start_soon(serve, tcp, router(api.public_routes(), hosts=frozenset({host})))
        processes.start_soon(measure_lag, node.metrics)
        await _start_children(node, processes)
        node.metrics.node_info.labels(
            node.identity.peer_id, node.config.policy.model, node.manifest.name
        ).set(1)
        node.metrics.ready.set(1)
        node.say(
            f"Running. look: swarmd status --data-dir {node.data_dir.root}   stop: Ctrl-C (twice: at once)\n"
        )
        await _run_loops(node, inbox_out)
        node.say(f"Stopped after round {node.progress.round}; the state is in {node.data_dir.root}")
        processes.cancel_scope.cancel()
    node.data_dir.socket.unlink(missing_ok=True)


def _facts(node: Node, metrics_url: str) -> dict[str, Any]:
    config = node.config
    return {
        "peer_id": node.identity.peer_id,
        "public_key": node.identity.public_key.hex(),
        "swarm": node.manifest.name,
        "topic": node.manifest.topic,
        "model": config.policy.model,
        "placement": node.placement.kind,
        "num_local": config.experience.num_local,
        "num_external": 0 if config.swarm.solo else config.experience.num_external,
        "data_dir": str(node.data_dir.root),
        "metrics_url": metrics_url,
        "solo": config.swarm.solo,
    }


def _make_children(node: Node, model_dir: Path, inbox: trio.MemorySendChannel[bytes]) -> None:
    specs = child_specs(
        node.config,
        node.data_dir,
        seed=node.seed,
        manifest=node.manifest,
        model=node.model,
        model_dir=model_dir,
        placement=node.placement,
        plan=lambda: node.memory.name,
        plans=node.memory.names,
        plan_key=node.plan_key,
    )

    def on_event(name: str, data: dict[str, Any]) -> None:
        if name == "batch":
            try:
                inbox.send_nowait(data["data"])
            except trio.WouldBlock:
                node.metrics.buffer_discarded.labels("queue_full").inc()
        elif name == "plan":
            node.memory.changed(data)

    def on_restart(name: str, reason: str) -> None:
        node.metrics.worker_restarts.labels(name, reason).inc()
        if reason == "killed" and node.children[name] is node.learner:
            node.memory.killed()

    for name, spec in specs.items():
        listener = on_event if name != "scorer" else None
        node.children[name] = Child(spec, on_event=listener, on_restart=partial(on_restart, name))


async def _start_children(node: Node, nursery: trio.Nursery) -> None:
    """Start all children at once: imports are most of the time, and none needs another. Then resume where the weights are."""
    node.say(f"… starting   {', '.join(node.children)}")
    async with trio.open_nursery() as starting:

        async def start(name: str) -> None:
            info = await nursery.start(node.children[name].run)
            node.say(f"✓ {name:<10} {summary(name, info)}")
            for line in info.get("skipped", ()):
                node.say(f"! checkpoint {line}")
            if note := info.get("engine_note"):
                node.say(f"! {name} without vLLM: {note}")

        for name in node.children:
            starting.start_soon(start, name)
    info = node.learner.info
    node.progress.resume(info["state"], info["policy_version"])
    if node.progress.round:
        node.say(f"✓ resumed    after round {node.progress.round}")


async def _signals(node: Node, everything: trio.CancelScope) -> None:
    """The first Ctrl-C or SIGTERM ends the node after the round under way (at once while it is starting), the second at once."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async for _ in received:
            if node.progress.stop_requested:
                raise KeyboardInterrupt
            if not all(child.info for child in node.children.values()):
                node.say("\nstopped before the first round")
                everything.cancel()
                return
            node.say("\nstopping after this round; press Ctrl-C again to stop now")
            node.progress.request_stop()


# ---------------------------------------------------------------- the loops


async def _run_loops(node: Node, inbox: trio.MemoryReceiveChannel[bytes]) -> None:
    """The four verbs and the observer, until the update loop is done."""
    outbox_in, outbox_out = trio.open_memory_channel[OwnBatch](OUTBOX_MAX)
    network = node.children.get("network")
    async with trio.open_nursery() as loops:
        loops.start_soon(_observe(node).run)
        loops.start_soon(_generate(node, outbox_in if network else None).run)
        if network:
            loops.start_soon(_share(node, network, outbox_out).run)
            loops.start_soon(_ingest(node, inbox).run)
        await _update(node).run()
        loops.cancel_scope.cancel()


def _generate(node: Node, outbox: trio.MemorySendChannel[OwnBatch] | None) -> Generate:
    experience = node.config.experience
    return Generate(
        generator=node.generator,
        scorer=node.children["scorer"],
        manifest=node.manifest,
        author=node.identity.public_key,
        streams=Streams(node.seed, node.manifest.digest),
        progress=node.progress,
        metrics=node.metrics,
        reserve_counters=node.buffer.reserve_counters,
        run_blocking=trio.to_thread.run_sync,
        outbox=outbox,
        now_ms=now_ms,
        num_rollouts=experience.num_local,
        num_completions=experience.completions,
        temperature=node.config.policy.temperature,
        tokens_max=node.generator.info["tokens_max"],
        deadline_s=node.config.questions.deadline_s,
    )


def _share(node: Node, network: Child, outbox: trio.MemoryReceiveChannel[OwnBatch]) -> Share:
    return Share(
        outbox=outbox,
        network=network,
        identity=node.identity,
        manifest=node.manifest,
        policy_name=node.config.policy.model[-64:],
        progress=node.progress,
        metrics=node.metrics,
    )


def _ingest(node: Node, inbox: trio.MemoryReceiveChannel[bytes]) -> Ingest:
    return Ingest(
        inbox=inbox,
        scorer=node.children["scorer"],
        manifest=node.manifest,
        author=node.identity.public_key,
        seen=Seen(),
        add=lambda verified, prompts, rewards: node.buffer.add(
            verified, prompts, rewards, received_ms=now_ms()
        ),
        run_blocking=trio.to_thread.run_sync,
        progress=node.progress,
        metrics=node.metrics,
        now_ms=now_ms,
        deadline_s=node.config.questions.deadline_s,
    )


def _update(node: Node) -> Update:
    config = node.config
    report = Report(node.data_dir.rounds, node.data_dir.evaluations, node.progress, node.say)
    evaluate = Evaluate(
        generator=node.generator,
        scorer=node.children["scorer"],
        manifest=node.manifest,
        now_ms=now_ms,
        num_questions=config.evaluate.num_questions,
        num_completions=config.evaluate.completions,
        temperature=config.policy.temperature,
        tokens_max=node.generator.info["tokens_max"],
        deadline_s=config.questions.deadline_s,
    )
    return Update(
        learner=node.learner,
        draw=lambda num, rng: node.buffer.sample(num, rng, now_ms=now_ms()),
        run_blocking=trio.to_thread.run_sync,
        streams=Streams(node.seed, node.manifest.digest),
        manifest=node.manifest,
        progress=node.progress,
        metrics=node.metrics,
        now_ms=now_ms,
        num_external=0 if config.swarm.solo else config.experience.num_external,
        checkpoint_every_rounds=config.checkpoint.every_rounds,
        evaluate=evaluate if config.evaluate.num_questions else None,
        evaluate_every_rounds=config.evaluate.every_rounds,
        rounds_max=node.rounds_max,
        on_round=report.round,
        on_evaluation=report.evaluation,
        hand_over=_hand_over(node) if node.placement.kind == "split" else None,
    )


def _observe(node: Node) -> Observe:
    return Observe(
        network=node.children.get("network"),
        counts=lambda: node.buffer.counts(now_ms()),
        run_blocking=trio.to_thread.run_sync,
        root=node.data_dir.root,
        workers_up=lambda: {name: child.up for name, child in node.children.items()},
        progress=node.progress,
        metrics=node.metrics,
    )


def _hand_over(node: Node) -> Callable[[], Awaitable[None]]:
    """Bring the newest weights from the update child to the generation child through a file in memory."""

    async def hand_over() -> None:
        directory = str(node.weights_dir)
        published = await node.learner.call("publish_weights", directory=directory, within_s=HAND_OVER_S)
        await node.generator.call("load_weights", **published, within_s=HAND_OVER_S)

    return hand_over
