"""`NetworkService`: what the daemon sees of the network. It runs in its own process, as an asynchronous child service.

It validates every message before anything is forwarded, hands accepted batches of others to the daemon, publishes our own, and
keeps the libp2p objects alive: when they die, all of them are made anew on the same port with the same identity.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message

from swarmd.clients.events import Accepted, BootstrapChanged, HostDied, NetworkEvent
from swarmd.clients.network import (
    Accusation,
    NetworkInfo,
    NetworkOps,
    NetworkStats,
    Outside,
    Peer,
    Reach,
)
from swarmd.clock import now_ms
from swarmd.config.network_section import NetworkLimits
from swarmd.errors import LocalError, Temporary, cause
from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import Verdict, validate
from swarmd.swarm import addresses, hardening
from swarmd.swarm.bootstrap_list import BootstrapList
from swarmd.swarm.connections import Connections
from swarmd.swarm.dial import Dialled
from swarmd.swarm.discovery import Discovery
from swarmd.swarm.gate import Gate
from swarmd.swarm.host import Stack, build
from swarmd.swarm.intake import Intake
from swarmd.swarm.local_peers import LocalPeers
from swarmd.swarm.pacing import Patience
from swarmd.swarm.peer_book import PeerBook
from swarmd.swarm.stats import reach_of, stats_of

Emit = Callable[[NetworkEvent], None]

# Between two lives of the libp2p objects. A life of a minute counts as a recovery and starts from the shortest again.
REBUILD_S_MIN, REBUILD_S_MAX, LIFE_S_GOOD = 0.5, 30.0, 60.0
LAG_PERIOD_S = 1.0


class NetworkService(NetworkOps):
    """See the module, and `swarmd.clients.events.NetworkEvent` for what it tells.

    Args:
        emit: non-blocking.
        identity_seed: 32 bytes.
        manifest: as `Manifest.to_bytes` made it.
        listen: `/ip4/HOST/tcp/PORT`, port 0 for any.
        announce: what others should dial, or None.
        bootstrap: `/ip4|dns4/HOST/tcp/PORT/p2p/ID` each.
        peers_path: the peer book's file, or None.
        banned: keys (`trust.peer_key`) of the peers that are banned now.
        bootstrap_path: the operator's list of further bootstraps, looked at again and again, or None.
        limits: as JSON where it comes through a frame.
        local_discovery: tell the local network of this node, and dial those of it that do the same.

    Raises:
        ConfigError: an address is malformed.
    """

    MAY_DROP = (Accepted,)
    asynchronous = True

    def __init__(
        self,
        emit: Emit,
        *,
        identity_seed: bytes,
        manifest: bytes,
        listen: str,
        announce: str | None = None,
        bootstrap: list[str] | None = None,
        peers_path: str | None = None,
        banned: list[bytes] | None = None,
        local_discovery: bool = True,
        bootstrap_path: str | None = None,
        limits: NetworkLimits | str = NetworkLimits(),  # noqa: B008 - frozen
    ) -> None:
        self._emit, self._seed = emit, identity_seed
        self._manifest = Manifest.from_bytes(manifest)
        self._listen = addresses.parse_listen(listen)
        self._announce = addresses.parse_announce(announce) if announce else None
        self._bootstrap = [addresses.parse_setting(text, "bootstrap") for text in bootstrap or []]
        self._limits = (
            limits if isinstance(limits, NetworkLimits) else NetworkLimits.model_validate_json(limits)
        )
        self._local_discovery = local_discovery
        self._list = BootstrapList(Path(bootstrap_path)) if bootstrap_path else None
        self._book = PeerBook(Path(peers_path) if peers_path else None, emit)
        self._patience = Patience.full(0.0)
        self._counters: Counter[str] = Counter()
        self._gate = Gate(banned or [], self._counters)
        self._connections = Connections(self._connection_changed)
        self._intake = Intake(
            self._manifest, self._limits, self._gate, self._counters, self._connections.since, emit
        )
        self._lag_s_max = 0.0
        self._started = False
        self._last_death = ""
        self._stack: Stack | None = None
        self._discovery: Discovery | None = None

    # -- life

    async def run(self, *, task_status: trio.TaskStatus[NetworkInfo] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. `task_status` is told once the node listens.

        Raises:
            PortTaken: the port is in use, or the address is not one of this machine.
            Exception: whatever else kept the first start from succeeding; later deaths are mended, not raised.
        """
        delay_s = REBUILD_S_MIN
        while True:
            began_at = trio.current_time()
            try:
                await self._live(trio.TASK_STATUS_IGNORED if self._started else task_status)
            except Exception as error:  # noqa: BLE001 - the gossip edge: a stranger's bytes can end py-libp2p with anything
                if not self._started:
                    raise cause(error) from None
                self._last_death = _kinds(error)
            self._counters["host_deaths"] += 1
            self._emit(HostDied(self._last_death))
            if trio.current_time() - began_at > LIFE_S_GOOD:
                delay_s = REBUILD_S_MIN
            await trio.sleep(delay_s)
            delay_s = min(delay_s * 2, REBUILD_S_MAX)

    async def _live(self, task_status: trio.TaskStatus[NetworkInfo]) -> None:
        """One life of the libp2p objects; returns when a service stopped without an error."""
        stack = build(self._seed, self._listen, self._announce, self._limits, self._manifest.topic)
        stack.pubsub.set_validator(self._manifest.topic, self._verdict)
        stack.places.gave_at = self._intake.accounts.gave_at
        stack.pubsub.accuse = self._intake.accused
        stack.pubsub.blacklisted_peers = self._gate.ids
        stack.host.get_network().register_notifee(self._connections)
        self._gate.watch(stack.host.get_network())
        async with stack.running():
            self._listen = replace(self._listen, port=stack.port)
            subscription = await stack.pubsub.subscribe(self._manifest.topic)
            discovery = self._make_discovery(stack)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_drain, subscription)
                nursery.start_soon(discovery.run)
                if self._local_discovery:
                    nursery.start_soon(self._local_peers(stack, discovery).run)
                nursery.start_soon(stack.streams.run)
                nursery.start_soon(self._intake.judge.run)
                nursery.start_soon(hardening.close_silent, stack.host.get_network(), stack.host_counters)
                nursery.start_soon(self._watch_lag)
                nursery.start_soon(self._gate.keep_out, stack.host.get_network())
                self._stack, self._discovery, self._started = stack, discovery, True
                try:
                    task_status.started(self._describe(stack))
                    await stack.wait_stopped()
                    nursery.cancel_scope.cancel()
                finally:
                    self._stack = self._discovery = None
                    self._connections.since.clear()

    def _make_discovery(self, stack: Stack) -> Discovery:
        return Discovery(
            stack.host,
            bootstrap=self._bootstrap,
            listed=self._list,
            book=self._book,
            own=lambda: self._own_addresses(stack),
            peers_wanted=self._limits.peers_wanted,
            rng=random.Random(self._seed + time.time_ns().to_bytes(8, "big")),
            now_s=time.time,
            report=self._bootstrap_changed,
            counters=self._counters,
            banned=self._gate.bans,
        )

    def _local_peers(self, stack: Stack, discovery: Discovery) -> LocalPeers:
        return LocalPeers(
            listen=self._listen,
            peer_id=stack.peer_id,
            topic=self._manifest.topic,
            found=discovery.heard_nearby,
            counters=self._counters,
        )

    def _own_addresses(self, stack: Stack) -> list[str]:
        bases = [self._announce or self._listen.text, *self._listen.local()]
        return [addresses.of_peer(base, stack.peer_id) for base in bases]

    def _describe(self, stack: Stack) -> NetworkInfo:
        shown = [self._announce] if self._announce else self._listen.shown()
        own = [addresses.of_peer(base, stack.peer_id) for base in shown]
        return NetworkInfo(stack.peer_id, own, self._manifest.topic)

    async def _watch_lag(self) -> None:
        """How late gossip's heartbeat came, and a timer of the same period, which would also show that it did not come at all."""
        while True:
            due = trio.current_time() + LAG_PERIOD_S
            await trio.sleep_until(due)
            beat_s = self._stack.gossipsub.heartbeat_lag_s if self._stack else 0.0
            lag_s = max(trio.current_time() - due, beat_s)
            self._lag_s_max = max(lag_s, self._lag_s_max * 0.98)  # forgotten by half in about 35 s

    # -- operations

    async def publish(self, data: bytes) -> Reach:
        """Give a sealed message of ours to the swarm. A reach of 0 is no error: the node is alone.

        Raises:
            LocalError: our own rules would refuse it, so everybody would.
            Temporary: the network is being rebuilt.
        """
        stack = self._running()
        outcome = validate(data, now_ms=now_ms(), seen=self._intake.seen, manifest=self._manifest)
        # A message may be published again: its first copy went nowhere when we were alone.
        if outcome.verdict is not Verdict.ACCEPT and outcome.rule != "duplicate":
            self._counters["publish_refused"] += 1
            raise LocalError(f"own message refused by rule {outcome.rule}: {outcome.detail}")
        topic = self._manifest.topic
        queues, mesh = stack.pubsub.peer_queues, stack.gossipsub.mesh.get(topic, set())
        if not await self._patience.wait_for_room(lambda: [queues[peer] for peer in mesh if peer in queues]):
            self._counters["publish_congested"] += 1
        await stack.pubsub.publish(topic, data)
        self._counters["published"] += 1
        self._counters["published_bytes"] += len(data)
        return reach_of(stack, topic)

    async def peers(self) -> list[Peer]:
        if self._stack is None or self._discovery is None:
            return []
        return self._connections.peers(self._stack, self._intake.accounts, self._discovery.agent_of)

    async def stats(self) -> NetworkStats:
        return stats_of(
            self._stack,
            self._counters,
            self._intake,
            self._book,
            topic=self._manifest.topic,
            lag_s=self._lag_s_max,
            last_death=self._last_death,
            bootstrap=self._discovery.bootstrap_states() if self._discovery else {},
            outside=self._discovery.outside() if self._discovery else Outside.unknown(),
        )

    async def ban(self, keys: list[bytes]) -> int:
        self._gate.replace(keys)
        if self._stack is None:
            return 0  # the next life begins with this list
        self._stack.pubsub.blacklisted_peers = self._gate.ids
        network = self._stack.host.get_network()
        num = sum(self._gate.bans(peer) for peer in network.connections)
        await self._gate.expel(network)
        return num

    async def accusations(self) -> list[Accusation]:
        return [Accusation(*found) for found in self._intake.accusations.take()]

    # -- told by the stack

    async def _verdict(self, forwarder: ID, message: Message) -> hardening.Verdict | None:
        """The topic's validator. Own messages went through the rules in `publish`."""
        if self._stack is not None and forwarder == self._stack.host.get_id():
            return hardening.Verdict.ACCEPT
        return await self._intake.verdict(forwarder, message)

    def _connection_changed(self, peer_id: str, *, connected: bool) -> None:
        if self._discovery is not None:
            self._discovery.connection_changed(peer_id, connected=connected)

    def _bootstrap_changed(self, address: str, result: Dialled) -> None:
        self._emit(BootstrapChanged(address, result.value))

    def _running(self) -> Stack:
        if self._stack is None:
            raise Temporary(
                "the network is being rebuilt", "its libp2p objects died", "try again in some seconds"
            )
        return self._stack


async def _drain(subscription: ISubscriptionAPI) -> None:
    """Batches are handed on by the validator, which also knows the forwarder; the channel only must not fill."""
    while True:
        await subscription.get()


def _kinds(error: BaseException) -> str:
    """Kinds of the exceptions in nested groups; their texts may be a stranger's."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(_kinds(inner) for inner in error.exceptions[:4])
    return type(error).__name__
