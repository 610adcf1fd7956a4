"""Builds and runs one set of libp2p objects: host, pubsub, gossipsub. A set lives once; after a death all of it is new.

TCP, Noise and yamux only: the stock lists also offer plaintext, over which anybody can claim any identity. What stock
py-libp2p gets wrong is put right in `swarmd.swarm.hardening`; here are the parameters, each with its reason.
"""

import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass

import multiaddr
import trio
from libp2p import new_host
from libp2p.abc import IHost, INetConn, INetwork
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.exceptions import BaseLibp2pError
from libp2p.network.config import ConnectionConfig, RetryConfig
from libp2p.network.connection.swarm_connection import SwarmConn
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11, PROTOCOL_ID_V12
from libp2p.pubsub.score import ScoreParams, TopicScoreParams
from libp2p.rcmgr import ResourceManager
from libp2p.rcmgr.manager import ResourceLimits
from libp2p.tools.anyio_service import Service, background_trio_service

from swarmd.config.network_section import NetworkLimits
from swarmd.swarm import hardening
from swarmd.swarm.addresses import ListenAddress
from swarmd.swarm.nets import plain
from swarmd.swarm.notifee import Notifee
from swarmd.swarm.places import Places
from swarmd.swarm.streams import StreamKeeper

# The mesh of one topic: 6 peers, no fewer than 5, no more than 12 (twice D, else fresh swarms grow orphans): the
# specification's defaults. Each peer more is a copy more of every message, for everybody.
DEGREE, DEGREE_LOW, DEGREE_HIGH = 6, 5, 12
HEARTBEAT_S = 1
# A pruned peer may come back after this. 60 s, the usual value, left orphans for a minute in fresh small swarms.
PRUNE_BACK_OFF_S = 20
# Protocol constant: the whole RPC. Four messages of 60 KB. Peers that disagree on it reconnect in a tight loop.
RPC_BYTES_MAX = 256 * 1024
SEEN_S = 300
# Our rules take milliseconds; the rest is waiting for a busy event loop.
VALIDATION_S_MAX = 10.0


@dataclass(frozen=True)
class Stack:
    """The objects of one life. `running` starts them and, whatever happens, closes their sockets."""

    host: IHost
    pubsub: hardening.HardenedPubsub
    gossipsub: hardening.HardenedGossipSub
    host_counters: hardening.Counters
    listen: ListenAddress
    places: Places
    streams: StreamKeeper
    sockets: "_OpenConnections"

    @property
    def peer_id(self) -> str:
        return str(self.host.get_id())

    @property
    def port(self) -> int:
        return int(self.host.get_transport_addrs()[0].value_for_protocol("tcp"))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run everything inside the block.

        Raises:
            ExceptionGroup: with whatever ended one of the services.
            PortTaken: inside such a group, when the port could not be had.
        """
        address = multiaddr.Multiaddr(self.listen.text)
        try:
            async with (
                self.host.run(listen_addrs=[address]),
                background_trio_service(self.pubsub),
                background_trio_service(self.gossipsub),
            ):
                hardening.assert_listening(self.host, [self.listen.text])
                await self.pubsub.wait_until_ready()
                yield
        finally:  # a crashed host leaves both behind, and neighbours would go on writing into the dead connections
            await hardening.close_listeners(self.host)
            await self.sockets.close()

    async def wait_stopped(self) -> None:
        """Returns when a service has ended without an error, which none should."""
        async with trio.open_nursery() as nursery:
            for service in (self.host.get_network(), self.pubsub, self.gossipsub):
                nursery.start_soon(_cancel_after, service, nursery.cancel_scope)


def build(
    identity_seed: bytes, listen: ListenAddress, announce: str | None, limits: NetworkLimits, topic: str
) -> Stack:
    """A set of objects that has not started.

    Args:
        identity_seed: 32 bytes, the Ed25519 seed of this node.
        topic: the only one that messages may be about.
        announce: `/ip4|dns4/HOST/tcp/PORT` that others should dial, or None to let them see for themselves.
    """
    hardening.install_once()
    key_pair = create_new_key_pair(identity_seed)
    host = new_host(
        key_pair=key_pair,
        sec_opt=hardening.security_options(key_pair),
        muxer_opt=hardening.muxer_options(),
        listen_addrs=[multiaddr.Multiaddr(listen.text)],
        announce_addrs=_announced(listen, announce),
        connection_config=_connections(limits),
        resource_manager=ResourceManager(
            limits=ResourceLimits(
                max_connections=limits.connections_max + limits.pending_max, max_streams=4000
            )
        ),
        disable_identify_address_discovery=announce is not None,
    )
    network = host.get_network()
    network.retry_config = RetryConfig(max_retries=0)  # our own loop backs off
    hardening.dial_named_addresses_only(host)
    places = _places(limits, same_ip_is_normal=listen.is_loopback)
    counters = hardening.harden_host(host, places)
    gossipsub = hardening.HardenedGossipSub(**_gossipsub_options(same_ip_is_normal=listen.is_loopback))
    pubsub = hardening.HardenedPubsub(host, gossipsub, allowed_topics={topic}, **PUBSUB_OPTIONS)
    sockets, streams = _OpenConnections(), StreamKeeper(network, pubsub)
    network.register_notifee(sockets)
    network.register_notifee(streams)
    return Stack(host, pubsub, gossipsub, counters, listen, places, streams, sockets)


def _places(limits: NetworkLimits, *, same_ip_is_normal: bool) -> Places:
    """All peers of a swarm on one machine share an address; there the caps per address would be caps on the swarm."""
    live, pending = limits.inbound_max, limits.pending_max
    if same_ip_is_normal:
        return Places(live, live, live, pending, pending)
    return Places(
        live, limits.inbound_per_ip_max, limits.inbound_per_net_max, pending, limits.pending_per_ip_max
    )


def _announced(listen: ListenAddress, announce: str | None) -> list[multiaddr.Multiaddr] | None:
    """py-libp2p would announce 0.0.0.0 as it stands: rather nothing, peers see where we come from."""
    if announce is not None:
        return [multiaddr.Multiaddr(announce)]
    return [] if listen.is_everywhere else None


PUBSUB_OPTIONS: dict[str, object] = {
    "strict_signing": True,
    "seen_ttl": SEEN_S,
    "sweep_interval": 30,
    "validation_timeout": VALIDATION_S_MAX,
    "max_inbound_rpc_size": RPC_BYTES_MAX,
}


def _gossipsub_options(*, same_ip_is_normal: bool) -> dict[str, object]:
    return {
        "protocols": [PROTOCOL_ID_V12, PROTOCOL_ID_V11],
        "degree": DEGREE,
        "degree_low": DEGREE_LOW,
        "degree_high": DEGREE_HIGH,
        "heartbeat_interval": HEARTBEAT_S,
        "gossip_window": 3,
        "gossip_history": 6,
        "time_to_live": 60,
        "prune_back_off": PRUNE_BACK_OFF_S,
        "unsubscribe_back_off": 10,
        "score_params": _score(same_ip_is_normal=same_ip_is_normal),
        "do_px": False,  # stock peer exchange dials whatever an attacker signs
    }


def _score(*, same_ip_is_normal: bool) -> ScoreParams:
    """A term with cap 0, the default, is switched off. P3 is never called by py-libp2p, so it is not set."""
    return ScoreParams(
        p2_first_message_deliveries=TopicScoreParams(weight=1.0, cap=20.0, decay=0.97),
        p4_invalid_messages=TopicScoreParams(weight=20.0, cap=1000.0, decay=0.995),
        p5_behavior_penalty_weight=5.0,
        p5_behavior_penalty_threshold=2.0,
        p5_behavior_penalty_decay=0.99,
        p7_ip_colocation_weight=0.0 if same_ip_is_normal else 5.0,
        p7_ip_colocation_threshold=20,  # an office behind one address; `places` bounds what a machine takes
        gossip_threshold=-40.0,
        publish_threshold=-80.0,
        graylist_threshold=-160.0,
        accept_px_threshold=math.inf,
    )


def _connections(limits: NetworkLimits) -> ConnectionConfig:
    high = max(limits.connections_max * 2 // 3, 1)
    return ConnectionConfig(
        max_connections=limits.connections_max,
        min_connections=0,
        low_watermark=high // 2,
        high_watermark=high,
        max_connections_per_peer=2,  # two ends that dial each other at once make two
        inbound_upgrade_timeout=5,
        outbound_upgrade_timeout=5,
        enable_health_monitoring=False,  # a late pong is no death (`silent_peers`)
    )


class _OpenConnections(Notifee):
    """Connections that have begun and not ended. py-libp2p clears its own list when it dies, without closing what was on it."""

    def __init__(self) -> None:
        self._open: set[SwarmConn] = set()

    async def connected(self, network: INetwork, connection: INetConn) -> None:
        self._open.add(connection)

    async def disconnected(self, network: INetwork, connection: INetConn) -> None:
        self._open.discard(connection)

    async def close(self) -> None:
        """Close the sockets beneath them, all at once, also under cancellation; at most a second."""
        with trio.move_on_after(1, shield=True):
            async with trio.open_nursery() as nursery:
                for connection in self._open:
                    nursery.start_soon(_close_socket, connection)
        self._open.clear()


async def _close_socket(connection: SwarmConn) -> None:
    with contextlib.suppress(BaseLibp2pError, trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        await connection.muxed_conn.secured_conn.close()


async def _cancel_after(service: Service, scope: trio.CancelScope) -> None:
    await service.get_manager().wait_finished()
    scope.cancel()


def host_of_connection(network: Swarm, peer: ID) -> str | None:
    """The IP address a connected peer is seen at; IPv4 as such, whatever socket it came through."""
    for connection in network.get_connections(peer):
        remote = connection.muxed_conn.get_remote_address()
        if remote is not None:
            return plain(str(remote[0]))
    return None
