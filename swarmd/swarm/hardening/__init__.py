"""py-libp2p 0.8.1 made fit for a public network, without a fork: one defect, one file, one test that shows stock failing.

| trap | defect of the stock package | file |
|---|---|---|
| T1 | two writers on one stream corrupt it; writers give up after 5 s | yamux_stream_lock |
| T2 | stream handlers, malformed RPCs, garbage keys, failing validators end the host | handler_isolation, rpc_reader, in_flight |
| T3 | no inbound connection after 250 in a life; no bound per address | inbound_limit |
| T4 | accepts /plaintext, and with it any identity | security |
| T5, T6 | a heartbeat of 30 s; fast forwarders dropped silently | heartbeat |
| | the mesh climbs to its upper bound | mesh_degree |
| T7 | a thousand whole messages kept to detect equivocation | equivocation |
| T8 | yamux windows not enforced, any number of streams, one WINDOW_UPDATE per read | yamux_window |
| T9 | no repair by IHAVE for peers in back-off; IHAVE and IWANT of any length | gossip_repair |
| T10 | two different message ids in one node; a cache not bounded in bytes | message_cache |
| | ids of js- and rust-libp2p are not understood, and their peers leave for good | message_ids |
| T11 | copies that arrive during validation are delivered again | in_flight |
| T12 | a subscriber may lag by 32 messages | subscription_channel |
| T13 | 32 RPCs per peer, then silence; an IDONTWANT for everything | outbound_queue, forwarding |
| T14 | message numbers repeat after a restart | seqno |
| T15 | control messages of one peer leak to the next | control_leak |
| T16 | the pruner does not back off; unknown topics and endless back-offs are stored; strangers' addresses are dialled | back_off |
| | who never took our stream stays in the mesh, and in all scores, after it has left | absent_peers |
| T17, T18 | each newcomer is sent the whole cache; messages stored for peers not in the topic | replay, forwarding |
| T19 | a thread per pubsub, an unbounded seen cache | seen_cache |
| T22 | publish never reports | pubsub |
| T23 | peers can flood the log | quiet_logs |
| | validators know no IGNORE, and a slow one charges the peer | verdicts |
| | an oversized RPC starts a reconnect loop; varints are read byte by byte; RPCs as fast as they come | rpc_reader, rpc_frames |
| | a late pong ends a live connection | silent_peers |
| | fields of an RPC have no bounds, and are carried on to others | rpc_bounds |
| | names of protocols have no bounds, and are read before anybody is known | stream_names |
| | whatever a stranger says of itself is kept | identify |
| | address records signed, sent and verified with every RPC | sender_record, control_leak |
| | a peer registered twice, or never; hello races with subscribe | peer_streams |
| T20 | closing a connection to a frozen peer hangs | muxer |
| | score term P7 never works; everybody in a full /24 is punished | peer_ip |
| | no byte is counted; peers over IPv6 have no address | wire_bytes |
| | dials addresses that strangers put into the peer store | own_dials |
| | taken ports are shared silently; dead listeners steal connections | listeners |

Use: `install_once()`; `new_host(sec_opt=security_options(key_pair), muxer_opt=muxer_options(), ...)`; `harden_host(host, ...)`
before `host.run()`; `HardenedGossipSub` and `HardenedPubsub`; `assert_listening` once it runs; `close_listeners` in a `finally`.
The fixes override private names: the version is pinned, and the tests of this package are to be run on each upgrade.
"""

import importlib.metadata

from libp2p.abc import IHost

from swarmd.errors import LocalError
from swarmd.protocol.rules import Verdict
from swarmd.swarm.hardening.counters import Counters
from swarmd.swarm.hardening.gossipsub import HardenedGossipSub
from swarmd.swarm.hardening.handler_isolation import isolate_handlers
from swarmd.swarm.hardening.identify import bound_identify
from swarmd.swarm.hardening.inbound_limit import limit_inbound
from swarmd.swarm.hardening.listeners import assert_listening, close_listeners, install_exclusive_listeners
from swarmd.swarm.hardening.muxer import install_muxer, muxer_options
from swarmd.swarm.hardening.own_dials import dial_named_addresses_only
from swarmd.swarm.hardening.pubsub import HardenedPubsub
from swarmd.swarm.hardening.quiet_logs import silence_libp2p
from swarmd.swarm.hardening.security import security_options
from swarmd.swarm.hardening.silent_peers import close_silent, note_what_is_heard
from swarmd.swarm.hardening.stream_names import install_bounded_names
from swarmd.swarm.hardening.wire_bytes import count_bytes
from swarmd.swarm.places import Places

__all__ = [
    "Counters",
    "HardenedGossipSub",
    "HardenedPubsub",
    "Verdict",
    "assert_listening",
    "close_listeners",
    "close_silent",
    "dial_named_addresses_only",
    "harden_host",
    "install_once",
    "muxer_options",
    "security_options",
]

SUPPORTED = "0.8.1"
HOST_COUNTERS = (
    "bytes_in",
    "bytes_out",
    "inbound_accepted",
    "inbound_refused_full",
    "inbound_refused_ip",
    "inbound_failed",
    "inbound_evicted",
    "handler_error",
    "close_error",
    "identify_failed",
    "yamux_overrun",
    "silent_closed",
)


def install_once() -> None:
    """The patches that no host can carry by itself: exclusive listen ports, bounded names, a silent log. May be called again.

    Raises:
        LocalError: another version of py-libp2p is installed, whose private names may mean something else.
    """
    installed = importlib.metadata.version("libp2p")
    if installed != SUPPORTED:
        raise LocalError(
            f"py-libp2p {installed} is installed, swarmd needs {SUPPORTED}.",
            "The network stack is hardened against the defects of exactly that version.",
            f"pip install libp2p=={SUPPORTED}",
        )
    install_exclusive_listeners()
    install_bounded_names()
    silence_libp2p()


def harden_host(host: IHost, places: Places) -> Counters:
    """Harden one host, before `host.run()`; returns its counters, which keep counting."""
    counters = Counters(HOST_COUNTERS)
    isolate_handlers(host, counters)
    bound_identify(host, counters)
    note_what_is_heard(host)
    limit_inbound(host, places, counters)
    install_muxer(host, counters)
    count_bytes(host, counters)
    return counters
