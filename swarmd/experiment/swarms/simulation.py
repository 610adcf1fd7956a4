"""A whole swarm in one process: the daemon's own loops, one step after the other in virtual time, with gossip in memory.

Each node is built and wired as `swarmd start` builds and wires it; what differs is the clock, that its workers are objects
instead of processes, and that a schedule decides whose round is next. Nothing runs side by side, so one seed gives one run, bit for
bit. A round of a normal node takes one virtual second, a tenth more or less; real time is measured and decides nothing.
"""

import heapq
import math
import os
import random
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import torch
import trio

from swarmd.clients.events import Accepted
from swarmd.config import load_config
from swarmd.errors import LocalError
from swarmd.experiment.cell import (
    Cell,
    NodeSpec,
    OnProgress,
    Stopped,
    experiment_of,
    identity_seed,
    rounds_of,
    scratch_of,
    settings_of,
)
from swarmd.experiment.swarms.gossip import MemoryGossip
from swarmd.experiment.swarms.workers import InProcess, SharedScorer
from swarmd.files.datadir import DataDir
from swarmd.loops.answers import OwnRollouts
from swarmd.loops.generate import Generate
from swarmd.loops.ingest import Ingest
from swarmd.loops.share import Share
from swarmd.loops.update import Update
from swarmd.node.own import make_identity
from swarmd.node.parts import Node, build
from swarmd.node.wiring import make_generate, make_ingest, make_share, make_update
from swarmd.policy.model.resolve import download_model
from swarmd.policy.model.staged import stage
from swarmd.policy.service import PolicyService
from swarmd.protocol.manifest import Manifest
from swarmd.questions.service import ScorerService

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
# Virtual time begins here: any fixed moment does, and this one is plainly not now.
EPOCH_MS = 1_000_000_000_000
# A round's length varies by so much either way, so that nodes do not march in step. At 0 the same node would always be first.
JITTER = 0.1


@dataclass
class Clock:
    """Virtual time in seconds since the start."""

    now_s: float = 0.0

    def now_ms(self) -> int:
        return EPOCH_MS + round(self.now_s * 1000)


async def inline(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """`RunBlocking` in the calling thread."""
    return function(*args)


@dataclass
class SimulatedNode:
    """One node's loops, and what waits to be ingested."""

    spec: NodeSpec
    node: Node
    generate: Generate
    share: Share
    ingest: Ingest
    update: Update
    outbox: trio.MemoryReceiveChannel[OwnRollouts]
    inbox: deque[bytes]
    rng: random.Random

    async def round(self) -> None:
        """Generate, share, take in what came, update."""
        await self.generate.once()
        while self.outbox.statistics().current_buffer_used:
            await self.share.once(self.outbox.receive_nowait())
        while self.inbox:
            await self.ingest.once(self.inbox.popleft())
        own = await self.node.progress.take_own()
        assert own is not None, "nobody asks a simulated node to stop"
        number = self.node.progress.round
        await self.update.one(own)
        if (
            self.node.progress.round == number
        ):  # a daemon goes on with the next; here the comparison would be spoilt
            raise LocalError(f"round {number + 1} of {self.spec.name} failed", fix="the log above says why")

    async def end(self) -> None:
        """Its last evaluation."""
        self.node.progress.evaluate_at_stop = True
        await self.update.end()

    def duration_s(self) -> float:
        """Virtual seconds of its next round."""
        return self.rng.uniform(1 - JITTER, 1 + JITTER) / self.spec.speed


def run_cell(cell: Cell, directory: Path, *, deadline_s: float | None, on_progress: OnProgress) -> None:
    """Run a cell; each node's records are in `directory/node-k` at the end, also when it was stopped.

    Raises:
        Stopped: at `deadline_s` (Unix time).
        SwarmdError: settings that no node would start with.
    """
    torch.set_num_threads(1)
    scratch = scratch_of(os.getpid())
    shutil.rmtree(scratch, ignore_errors=True)  # of a killed process that had this number
    scratch.mkdir(mode=0o700)
    try:
        trio.run(Simulation(cell, experiment_of(directory), scratch).run, deadline_s, on_progress)
    finally:
        for number in range(len(cell.nodes)):
            _keep(scratch / f"node-{number}", directory / f"node-{number}")
        shutil.rmtree(scratch, ignore_errors=True)


def _keep(node: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in ("rounds.jsonl", "evaluations.jsonl"):
        if (node / name).exists():
            shutil.copyfile(node / name, target / name)


class Simulation:
    """The nodes of a cell and their common world."""

    def __init__(self, cell: Cell, experiment: Path, scratch: Path) -> None:
        self._cell, self._experiment, self._scratch, self._clock = cell, experiment, scratch, Clock()
        self._gossip: MemoryGossip | None = None
        self._scorer: SharedScorer | None = None
        self._nodes: list[SimulatedNode | None] = [None] * len(cell.nodes)

    async def run(self, deadline_s: float | None, on_progress: OnProgress) -> None:
        """Rounds in the order of virtual time, until it is over; then whatever has processes or files is ended."""
        try:
            await self._rounds(deadline_s, on_progress)
        finally:
            for node in self._nodes:
                if node is not None:
                    node.node.buffer.close()
                    node.node.counter.close()
            if self._scorer is not None:
                self._scorer.close()

    async def _rounds(self, deadline_s: float | None, on_progress: OnProgress) -> None:
        queue = [(float(spec.joins_at_round), number) for number, spec in enumerate(self._cell.nodes)]
        heapq.heapify(queue)
        while queue:
            at_s, number = heapq.heappop(queue)
            num_done = min(self._cell.rounds, int(self._cell.rounds * at_s / self._cell.end))
            if deadline_s is not None and time.time() > deadline_s:
                raise Stopped(num_done)
            self._clock.now_s = at_s
            node = self._nodes[number]
            if node is None:
                node = self._nodes[number] = self._join(number)
                await node.update.begin()
                # Nodes do not start at one moment; which is first differs by seed.
                heapq.heappush(queue, (at_s + node.rng.random() * node.duration_s(), number))
                continue
            await node.round()
            if number == 0:
                on_progress(num_done, self._cell.rounds)
            if node.node.progress.round < rounds_of(self._cell, node.spec):
                heapq.heappush(queue, (at_s + node.duration_s(), number))
            else:
                await node.end()

    def _join(self, number: int) -> SimulatedNode:
        spec = self._cell.nodes[number]
        data_dir = DataDir(self._scratch / f"node-{number}")
        data_dir.root.mkdir(parents=True)
        make_identity(data_dir, identity_seed(self._cell.seed, number))
        # on one thread of the CPU unless the settings say otherwise
        flags = {
            "policy.device": "cpu",
            "policy.threads": "1",
            **settings_of(self._cell, spec, self._experiment),
        }
        node = build(
            load_config(flags=flags, environ={}),
            data_dir,
            rounds_max=None,
            say=lambda line: None,
        )
        node.now_ms, node.run_blocking = self._clock.now_ms, inline
        inbox: deque[bytes] = deque()

        def emit(accepted: Accepted) -> None:
            inbox.append(accepted.data)

        node.children.update(
            scorer=InProcess(self._scorer_of(node)),
            generation=InProcess(_policy_of(node)),
            network=InProcess(self._gossip_of(node.manifest).join(node.identity.peer_id, emit)),
        )
        outbox_in, outbox_out = trio.open_memory_channel[OwnRollouts](math.inf)
        _, never = trio.open_memory_channel[bytes](0)
        rng = random.Random(f"swarmd experiment time {self._cell.seed} {number}")
        return SimulatedNode(
            spec=spec,
            node=node,
            generate=make_generate(node, outbox_in),
            share=make_share(node, node.network, outbox_out, inbox.append),
            ingest=make_ingest(node, never),
            update=make_update(node),
            outbox=outbox_out,
            inbox=inbox,
            rng=rng,
        )

    def _gossip_of(self, manifest: Manifest) -> MemoryGossip:
        if self._gossip is None:
            self._gossip = MemoryGossip(manifest, self._clock.now_ms)
        return self._gossip

    def _scorer_of(self, node: Node) -> SharedScorer:
        if self._scorer is None:
            service = ScorerService(
                lambda event: None,
                manifest=node.manifest.to_bytes(),
                sandbox=node.config.questions.sandbox,
            )
            self._scorer = SharedScorer(service)
        return self._scorer


def _policy_of(node: Node) -> PolicyService:
    folder = download_model(node.model, lambda done, total: None)
    return PolicyService(
        lambda event: None,
        roles=("generate", "update"),
        model_dir=str(stage(node.model.name, folder, node.data_dir.model)),
        device=node.placement.generation,
        config=node.config.model_dump_json(),
        # Only a canary goes back to one; the others' rounds would be slowed down for nothing.
        checkpoints_dir=str(node.data_dir.checkpoints) if node.config.trust.canary == "on" else None,
    )
