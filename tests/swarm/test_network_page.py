"""proto/NETWORK.md and proto/VERSIONS.md against the code: the protocols a node speaks, and the numbers others have to know."""

import re
from pathlib import Path

from libp2p.crypto.ed25519 import create_new_key_pair

from swarmd.config.network_section import NetworkLimits
from swarmd.protocol.manifest import MANIFEST_VERSION
from swarmd.protocol.types import PROTOCOL_VERSION
from swarmd.swarm import exchange, hardening, host, places
from swarmd.swarm.addresses import parse_listen
from swarmd.swarm.hardening import (
    back_off,
    gossip_repair,
    identify,
    rpc_bounds,
    rpc_reader,
    seen_cache,
    stream_names,
    yamux_window,
)

PROTO = Path(__file__).parents[2] / "proto"
PAGE = (PROTO / "NETWORK.md").read_text()
FLAT = " ".join(PAGE.split())  # a sentence may go over several lines


def row(start: str) -> list[int]:
    """The numbers of the one table row that begins so."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {start}")]
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", line[len(start) + 2 :])]


def test_the_page_lists_every_protocol_that_a_node_speaks():
    stack = host.build(bytes(32), parse_listen("/ip4/127.0.0.1/tcp/0"), None, NetworkLimits(), "topic")
    key = create_new_key_pair(bytes(32))
    spoken = {
        "/multistream/1.0.0",
        str(exchange.PROTOCOL),
        *map(str, stack.host.get_mux().handlers),
        *map(str, stack.pubsub.protocols),
        *map(str, hardening.security_options(key)),
        *map(str, hardening.muxer_options()),
    }
    assert set(re.findall(r"`(/(?!swarmd/1)[a-z/]+[0-9.]*)`", PAGE)) == spoken


def test_the_page_has_gossipsubs_parameters():
    assert row("size of an RPC")[0] == host.RPC_BYTES_MAX
    assert rpc_reader.STRIKES_MAX == 3  # in words there: the third strike
    assert row("D, D_low, D_high") == [host.DEGREE, host.DEGREE_LOW, host.DEGREE_HIGH]
    assert row("seen messages") == [host.SEEN_S, seen_cache.IDS_MAX]
    assert row("prune back-off") == [host.PRUNE_BACK_OFF_S, 10]
    options = host._gossipsub_options(same_ip_is_normal=False)
    assert row("heartbeat") == [host.HEARTBEAT_S, options["gossip_window"], options["gossip_history"]]
    assert row("IHAVE, IWANT") == [
        rpc_bounds.IDS_MAX,
        gossip_repair.IWANT_PER_BEAT_MAX,
        gossip_repair.SERVINGS_MAX,
    ]
    assert host.PUBSUB_OPTIONS["strict_signing"]


def test_what_stock_gossipsub_does_by_itself_is_off():
    """Its own extensions slow the heartbeat to 30 s, drop honest messages past ten a second, and dial what strangers sign."""
    router = host.build(
        bytes(32), parse_listen("/ip4/127.0.0.1/tcp/0"), None, NetworkLimits(), "topic"
    ).gossipsub
    assert not router.adaptive_gossip_enabled
    assert not router.spam_protection_enabled
    assert not router.eclipse_protection_enabled
    assert not router.do_px
    assert row("ids remembered from IDONTWANT") == [router.max_idontwant_messages]


def test_the_page_has_the_bounds_of_the_fields_of_an_rpc():
    assert row("`publish`") == [rpc_bounds.MESSAGES_MAX]
    assert row("its `from`")[0] == rpc_bounds.FROM_BYTES
    assert row("its `seqno`")[0] == rpc_bounds.SEQNO_BYTES
    assert row("its `signature`")[0] == rpc_bounds.SIGNATURE_BYTES
    assert row("its `key`") == [0, rpc_bounds.KEY_BYTES]
    assert row("`subscriptions`") == [rpc_bounds.SUBSCRIPTIONS_MAX]
    assert row("`control.graft`, `control.prune`") == [rpc_bounds.GRAFTS_MAX] == [rpc_bounds.PRUNES_MAX]
    assert row("PRUNE's `peers`")[0] == rpc_bounds.EXCHANGED_PEERS_MAX
    assert row("PRUNE's `backoff`") == [back_off.BACK_OFF_S_MAX]
    assert row("`control.ihave`, `iwant`, `idontwant`") == [rpc_bounds.LISTS_MAX]
    assert row("their `messageIDs`")[:3] == [rpc_bounds.IDS_MAX, 1, rpc_bounds.ID_BYTES_MAX]
    assert row("`senderRecord` (4)")[0] == rpc_bounds.RECORD_BYTES_MAX


def test_the_page_has_what_a_peer_may_cost():
    assert f"{rpc_reader.RPC_CPU_RATE} of a core, and {rpc_reader.RPC_CPU_S_MAX} s at once" in FLAT
    assert f"at most {rpc_reader.STREAMS_PER_PEER_MAX} pubsub streams" in FLAT
    assert f"{identify.ANSWER_BYTES_MAX:,} bytes at most" in FLAT
    assert f"({identify.OBSERVED_BYTES_MAX} bytes" in FLAT
    assert f"names of {stream_names.NAME_BYTES_MAX:,} bytes, {stream_names.NAMES_MAX} of them" in FLAT


def test_the_page_has_the_bounds_of_a_connection():
    limits = NetworkLimits()
    assert f"{limits.inbound_max} inbound connections; once half of the places are taken" in FLAT
    assert f"taken, {limits.inbound_per_ip_max} from one address" in FLAT
    assert f"and {limits.inbound_per_net_max} from one /24 or /48" in FLAT
    assert (places.GIFT_HOLDS_S, places.GRACE_S) == (1800.0, 5.0)  # "half an hour", and what THREATS says
    assert f"{limits.pending_max} handshakes under way, {limits.pending_per_ip_max} from one address" in FLAT
    rate = f"{limits.messages_per_s_max:.0f} messages a second from a forwarder with a burst of {limits.messages_burst_max}"
    assert rate in FLAT
    assert f"{rpc_reader.VALIDATIONS_PER_PEER_MAX} messages of a peer under validation" in FLAT
    assert f"{yamux_window.WINDOW_BYTES:,} bytes are enforced" in FLAT
    assert f"{yamux_window.INBOUND_STREAMS_MAX} inbound streams" in FLAT
    assert f"{exchange.FRAME_BYTES_MAX:,} bytes a frame, {exchange.EXCHANGE_S_MAX:.0f} s" in FLAT


def test_the_versions_are_those_of_the_code():
    page = (PROTO / "VERSIONS.md").read_text()
    assert f"| protocol, {PROTOCOL_VERSION} |" in page
    assert f"| manifest, {MANIFEST_VERSION} |" in page
    assert f"`{exchange.PROTOCOL}`" in page
