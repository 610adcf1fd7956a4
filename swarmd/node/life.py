"""A node's life: builds every part, wires them, and opens the nurseries. Read this first.

A start goes: lock, identity, model (named and found before anything is downloaded or spawned), manifest, buffer (`parts`), control
sockets, the child processes side by side (`launch`), then the loops. The children and sockets outlive the loops: a last evaluation
needs the ones, and whoever asked for the stop still gets answers from the others. Everything is crash-only: an orderly stop saves
time, never data.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import trio

from swarmd.clients.events import Accepted, event_of
from swarmd.clients.policy import PolicyInfo
from swarmd.config import Config
from swarmd.control.gate import gate_of
from swarmd.control.http import BODY_BYTES_MAX, Service
from swarmd.control.server import open_tcp, open_unix, router, serve
from swarmd.errors import cause
from swarmd.fair.inbox import Inbox
from swarmd.files.atomic import remove_left_over
from swarmd.files.datadir import DataDir
from swarmd.files.failing import disk_error, of_disk
from swarmd.files.lock import Lock
from swarmd.garbage import settle
from swarmd.loops.answers import OwnRollouts
from swarmd.loops.ports import Say
from swarmd.loops.share import OUTBOX_MAX
from swarmd.loops.training import lost_line
from swarmd.node.api import Api
from swarmd.node.checkpoints import last_round, newest_age_s
from swarmd.node.children import child_specs, summary
from swarmd.node.events import heard
from swarmd.node.health import Health
from swarmd.node.parts import Node, build
from swarmd.node.status import About
from swarmd.node.wiring import make_bans, make_generate, make_ingest, make_observe, make_share, make_update
from swarmd.policy.model.resolve import download_model
from swarmd.policy.model.staged import stage
from swarmd.processes.supervise import Child
from swarmd.processes.values import typed
from swarmd.trust.flows import Flows


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
    lock = Lock(data_dir, say=say)
    try:
        remove_left_over(data_dir.root)
        node = build(config, data_dir, rounds_max=rounds_max, say=say)
        try:
            model_dir = await trio.to_thread.run_sync(_download, node, abandon_on_cancel=True)
            await _live(node, model_dir, explicit, lock.fd)
        finally:
            node.buffer.close()
            node.counter.close()
            if node.weights_dir is not None:
                shutil.rmtree(node.weights_dir, ignore_errors=True)
    except (OSError, BaseExceptionGroup) as group:
        if isinstance(failed := cause(group), OSError) and of_disk(failed, data_dir.root):
            raise disk_error(failed, f"cannot go on with the data directory {data_dir.root}") from group
        raise
    finally:
        lock.release()
    if error := node.progress.shown.checkpoint_error:
        raise type(error)(
            f"the rounds since the last checkpoint are lost: {error.what}", error.why, error.fix
        )


def _download(node: Node) -> Path:
    """The folder that the children load the model from; a download says how far it is about once a second."""

    def progress(done_bytes: int, total_bytes: int) -> None:
        node.say(f"  download   {done_bytes / 1e6:.0f}/{total_bytes / 1e6:.0f} MB")

    folder = download_model(node.model, progress)
    return stage(node.model.name, folder, node.data_dir.model, node.say)


async def _live(node: Node, model_dir: Path, explicit: set[str], lock_fd: int) -> None:
    """Sockets and children first, then the loops inside; leaving ends all of them."""
    host = node.config.control.metrics_host
    tcp, port = await open_tcp(
        host, node.config.control.metrics_port, explicit="control.metrics_port" in explicit
    )
    unix = await open_unix(node.data_dir.socket)
    node.say(f"✓ metrics    http://{host}:{port}/metrics")
    flows = Flows(node.trust, node.manifest.limits, node.now_ms)
    inbox = Inbox(held=flows.held)
    ingest = partial(_offer, node, flows, inbox)
    children = _make_children(node, model_dir, ingest, lock_fd)
    node.children.update(children)
    bans = make_bans(node)
    health = Health(node.progress, children, node.pace, node.metrics, node.data_dir, node.config.swarm.solo)
    api = Api(
        _about(node, f"http://{host}:{port}/metrics"),
        node.children,
        node.progress,
        node.metrics,
        node.now_ms,
        node.manifest,
        bans,
        health,
    )
    async with trio.open_nursery() as processes:
        processes.start_soon(_signals, node, processes.cancel_scope)
        for_operator = Service(router(api.operator_routes()), body_bytes_max=BODY_BYTES_MAX)
        for_probes = Service(router(api.public_routes()), gate=gate_of(frozenset({host.lower()})))
        processes.start_soon(serve, unix, for_operator, partial(node.metrics.count_connection, "unix"))
        processes.start_soon(serve, tcp, for_probes, partial(node.metrics.count_connection, "tcp"))
        processes.start_soon(health.run)
        processes.start_soon(bans.run)
        await _start_children(node, children, processes)
        node.metrics.node_info.labels(
            node.identity.peer_id, node.config.policy.model, node.manifest.name
        ).set(1)
        settle()
        node.say(
            f"Running. look: swarmd status --data-dir {node.data_dir.root}   stop: Ctrl-C (twice: at once)\n"
        )
        await _run_loops(node, ingest, inbox)
        node.say(f"Stopped after round {node.progress.round}; the state is in {node.data_dir.root}")
        processes.cancel_scope.cancel()
    with contextlib.suppress(OSError):  # nobody listens there any more, and the next start removes it
        node.data_dir.socket.unlink()


def _about(node: Node, metrics_url: str) -> About:
    config = node.config
    return About(
        pid=os.getpid(),
        started_ms=node.now_ms(),
        peer_id=node.identity.peer_id,
        public_key=node.identity.public_key.hex(),
        swarm=node.manifest.name,
        topic=node.manifest.topic,
        model=config.policy.model,
        placement=node.placement.kind,
        num_local=config.experience.num_local,
        num_external=config.num_external,
        data_dir=str(node.data_dir.root),
        metrics_url=metrics_url,
        solo=config.swarm.solo,
    )


def _offer(node: Node, flows: Flows, inbox: Inbox, accepted: Accepted) -> None:
    """A message for the ingest loop, which nobody waits for."""
    message = accepted.data
    flow, author = flows.of(message, accepted.forwarder, author_connected=accepted.author_connected)
    if not inbox.offer(flow, author, message):
        node.metrics.buffer_discarded.labels("queue_full").inc()


def _make_children(
    node: Node, model_dir: Path, ingest: Callable[[Accepted], None], lock_fd: int
) -> dict[str, Child]:
    specs = child_specs(
        node.config,
        node.data_dir,
        seed=node.seed,
        manifest=node.manifest,
        model_dir=model_dir,
        placement=node.placement,
        weights_dir=node.weights_dir,
        plan=lambda: node.memory.name,
        plans=node.memory.names,
        plan_key=node.plan_key,
        banned=lambda: node.trust.standings.banned_now(node.now_ms() / 1000),
    )

    def on_event(name: str, fields: object) -> None:
        event = event_of(name, fields)
        heard(event, ingest=ingest, memory=node.memory, metrics=node.metrics, say=node.say)

    def on_restart(name: str, reason: str) -> None:
        node.metrics.worker_restarts.labels(name, reason).inc()
        if name in ("generation", "update"):
            node.memory.failed(reason)

    return {
        name: Child(
            replace(spec, held=(lock_fd,)),
            on_event=on_event,
            on_dropped=node.metrics.buffer_discarded.labels("outbox").inc,
            on_restart=partial(on_restart, name),
        )
        for name, spec in specs.items()
    }


async def _start_children(node: Node, children: dict[str, Child], nursery: trio.Nursery) -> None:
    """Start all children at once: imports are most of the time, and none needs another. Then resume where the weights are."""
    node.say(f"… starting   {', '.join(children)}")
    async with trio.open_nursery() as starting:

        async def start(name: str) -> None:
            info = await nursery.start(children[name].run)
            node.say(f"✓ {name:<10} {summary(name, info)}")
            if name in ("generation", "update") and (told := typed(PolicyInfo, info)).engine_note:
                short_of = "one copy of the weights" if told.engine == "vllm" else "vLLM"
                node.say(f"! {name} without {short_of}: {told.engine_note}")

        for name in children:
            starting.start_soon(start, name)
    node.progress.resume(node.resumed.state, node.resumed.policy_version)
    round = node.progress.round
    node.pace.resumed(round, newest_age_s(node.data_dir, node.now_ms() / 1000), trio.current_time())
    if round:
        node.say(f"✓ resumed    after round {round}")
    with contextlib.suppress(OSError):  # the history is no state
        if (num_lost := (last := last_round(node.data_dir)) - round) > 0:
            node.metrics.rounds_lost.inc(num_lost)
            node.say(lost_line(round, num_lost, "the last run did not end in order"))
        elif num_lost < 0:
            node.metrics.state_damaged.labels("history").inc()
            node.say(
                f"! history    {node.data_dir.rounds.name} ends with round {last}: newer records are lost"
            )


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


async def _run_loops(node: Node, ingest: Callable[[Accepted], None], inbox: Inbox) -> None:
    """The four verbs and the observer, until the update loop is done."""
    outbox_in, outbox_out = trio.open_memory_channel[OwnRollouts](OUTBOX_MAX)
    network = node.network
    exchanges = network is not None or node.config.experience.source == "own"

    def ingest_own(message: bytes) -> None:
        ingest(Accepted(message, node.identity.peer_id, author_connected=True))

    async with trio.open_nursery() as loops:
        loops.start_soon(make_observe(node).run)
        loops.start_soon(make_generate(node, outbox_in if exchanges else None).run)
        if exchanges:
            loops.start_soon(make_share(node, network, outbox_out, ingest_own).run)
            loops.start_soon(make_ingest(node, inbox, inbox.more).run)
        await make_update(node).run()
        loops.cancel_scope.cancel()
