"""The documents that a person or program sees of the loops: status, peers, identity. Schema version 1."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from swarmd import __version__
from swarmd.clients.worker import Worker
from swarmd.loops.progress import Progress
from swarmd.loops.record import mean
from swarmd.loops.shown import NetworkShown
from swarmd.node.problems import Problem
from swarmd.protocol.rules import Verdict

SCHEMA = 1


@dataclass(frozen=True)
class About:
    """Facts that do not change while the node runs: each field is an entry of a document. Children tell the last five."""

    pid: int
    started_ms: int
    peer_id: str
    public_key: str
    swarm: str
    topic: str
    model: str
    placement: str
    num_local: int
    num_external: int
    data_dir: str
    metrics_url: str
    solo: bool
    addresses: tuple[str, ...] = ()
    num_parameters: int = 0
    device: str = ""
    engine: str = ""
    sandbox: str = "starting"


def status_document(
    about: About,
    progress: Progress,
    workers: Mapping[str, Worker],
    now_ms: int,
    problems: Sequence[Problem] = (),
) -> dict[str, object]:
    """`/v1/status`: one screen of what the node is and does."""
    history, shown = progress.history, progress.shown
    recent = history.recent
    external = [r.drawn.reward_external for r in recent if r.drawn.reward_external is not None]
    return {
        "schema": SCHEMA,
        "swarmd": __version__,
        "pid": about.pid,
        "uptime_s": (now_ms - about.started_ms) / 1000,
        "peer_id": about.peer_id,
        "swarm": {"name": about.swarm, "topic": about.topic, "solo": about.solo},
        "model": {
            "name": about.model,
            "num_parameters": about.num_parameters,
            "device": about.device,
            "engine": about.engine,
            "placement": about.placement,
            "policy_version": progress.policy_version,
            "plan": progress.plan,
        },
        "round": progress.round,
        "phase": progress.phase,
        "reward": {
            "own": mean([r.drawn.reward_own for r in recent]) if recent else None,
            "external": mean(external) if external else None,
            "over_rounds": len(recent),
            "history": [r.drawn.reward_own for r in list(history.rounds)[-200:]],
        },
        "evaluation": history.evaluations[-1] if history.evaluations else None,
        "mix": {
            "num_local": about.num_local,
            "num_external": about.num_external,
            "got_external": mean([float(r.drawn.num_external) for r in recent]) if recent else None,
        },
        "rollouts": {
            "shared": history.num_shared,
            "received": history.num_received,
            "used_by_author": history.used_by_author,
        },
        "buffer": asdict(shown.buffer),
        "trust": {**asdict(shown.authors), "dropped": shown.dropped},
        "network": {
            "num_peers": shown.network.num_peers,
            "addresses": list(about.addresses),
            "stats": _network_stats(shown.network),
        },
        "workers": {
            name: {"up": worker.up, "pid": worker.pid, "restarts": worker.num_restarts}
            for name, worker in workers.items()
        },
        "sandbox": about.sandbox,
        "data_dir": about.data_dir,
        "metrics": about.metrics_url,
        "health": [problem.to_document() for problem in problems],
    }


def _network_stats(network: NetworkShown) -> dict[str, object]:
    if network.stats is None:
        return {}
    num = {"accepted": Verdict.ACCEPT, "ignored": Verdict.IGNORE, "rejected": Verdict.REJECT}
    return {**network.stats.to_document(), **{name: network.num(verdict) for name, verdict in num.items()}}


def peers_document(progress: Progress, standing_of: Callable[[str], str]) -> dict[str, object]:
    """`/v1/peers`: who is connected, what came of their messages, and how each stands (`new`, `proven` or `banned`)."""
    shown, used = progress.shown, progress.history.used_by_author
    peers = [
        {
            **peer._asdict(),
            "rollouts_held": shown.buffer.by_author.get(peer.peer_id, 0),
            "rollouts_used": used.get(peer.peer_id, 0),
            "standing": standing_of(peer.peer_id),
        }
        for peer in shown.network.peers
    ]
    return {"schema": SCHEMA, "peers": peers}


def id_document(about: About) -> dict[str, object]:
    """`/v1/id`: the node's own identity and where it can be reached."""
    return {
        "schema": SCHEMA,
        "peer_id": about.peer_id,
        "public_key": about.public_key,
        "addresses": list(about.addresses),
        "swarm": about.swarm,
        "agent": f"swarmd/{__version__}",
    }
