"""What the network process counted, put together for whoever asks."""

from collections import Counter

import trio

from swarmd.clients.network import NetworkStats, Outside, Reach, Traffic
from swarmd.protocol.rules import RULES
from swarmd.swarm.dial import Dialled
from swarmd.swarm.hardening.wire_bytes import BYTES_IN, BYTES_OUT
from swarmd.swarm.host import Stack
from swarmd.swarm.intake import Intake
from swarmd.swarm.peer_book import PeerBook

# Counts that people see and nothing reads.
COUNTERS = (
    "received_bytes", "published", "published_bytes", "publish_refused", "publish_congested", "host_deaths",
    "exchange_asked", "exchange_answered", "exchange_failed", "exchange_busy",
    "exchange_hints_refused", "exchange_hints_failed", "knocks_answered", "knocks_vain",
)  # fmt: skip
# Why an inbound connection did not come to be, or had to make way, by the host's counter.
REFUSALS = {
    "full": "inbound_refused_full",
    "address": "inbound_refused_ip",
    "failed": "inbound_failed",
    "evicted": "inbound_evicted",
}


def stats_of(
    stack: Stack | None,
    counters: Counter[str],
    intake: Intake,
    book: PeerBook,
    *,
    topic: str,
    lag_s: float,
    last_death: str,
    bootstrap: dict[str, str],
    outside: Outside,
) -> NetworkStats:
    """All counts; those of the libp2p objects are 0 while there are none."""
    host: Counter[str] = Counter(stack.host_counters) if stack else Counter()
    gossip: Counter[str] = (
        Counter({**stack.pubsub.counters, **stack.gossipsub.counters}) if stack else Counter()
    )
    return NetworkStats(
        received=counters["received"],
        rate_limited=counters["rate_limited"],
        banned_connections=counters["banned_connections"],
        banned_messages=counters["banned_messages"],
        blacklisted=gossip["blacklisted"],
        verdicts={rule: intake.rules[rule] for rule in RULES},
        reach=reach_of(stack, topic) if stack else Reach(0, 0),
        traffic=Traffic(
            bytes_in=host[BYTES_IN],
            bytes_out=host[BYTES_OUT],
            num_duplicates=gossip["duplicate"],
            dials={result.value: counters[f"dial_{result.value}"] for result in Dialled},
            refused={why: host[name] for why, name in REFUSALS.items()},
        ),
        heartbeat_lag_s=lag_s,
        num_tasks=trio.lowlevel.current_statistics().tasks_living,
        bootstrap=bootstrap,
        outside=outside,
        others={
            **{name: counters[name] for name in COUNTERS},
            "peers": len(stack.host.get_network().connections) if stack else 0,
            "streams_moved": stack.streams.num_moved if stack else 0,
            "streams_retried": stack.streams.num_retried if stack else 0,
            "last_death": last_death,
            "book_size": len(book.addresses()),
            "book_corrupt": book.num_corrupt,
            "book_write_errors": book.num_write_errors,
            "host": dict(host),
            "gossip": dict(gossip),
        },
    )


def reach_of(stack: Stack, topic: str) -> Reach:
    """Whom a message of ours would reach now."""
    mesh, subscribers = stack.gossipsub.mesh.get(topic, ()), stack.pubsub.peer_topics.get(topic, ())
    return Reach(len(mesh), len(subscribers))
