"""The documents that a person or program sees of the loops: status, peers, identity. Schema version 1."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from swarmd import __version__
from swarmd.clients.worker import Worker
from swarmd.errors import DiskFull
from swarmd.loops.progress import Progress
from swarmd.loops.record import mean
from swarmd.loops.shown import NetworkShown
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
    about: About, progress: Progress, workers: Mapping[str, Worker], now_ms: int
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
        "health": health(about, progress, workers),
    }


def health(about: About, progress: Progress, workers: Mapping[str, Worker]) -> list[dict[str, str]]:
    """Warnings with a code, what is the matter, and what to do. Empty when all is well."""
    warnings, shown = [], progress.shown
    if not about.solo and not shown.network.peers:
        warnings.append(
            _warning(
                "no_peers", "No peer is connected.", "Check --bootstrap; training goes on with own rollouts."
            )
        )
    stats = shown.network.stats
    for address, state in stats.bootstrap.items() if stats else ():
        if state == "wrong_peer_id":
            text = f"Another node than named answers at {address}."
            warnings.append(
                _warning("bootstrap_wrong_peer", text, "The list is stale, or somebody stands in between.")
            )
    warnings += [
        _warning(
            "worker_restarting",
            f"The {name} process is being replaced.",
            f"See {about.data_dir}/logs/{name}.log.",
        )
        for name, worker in workers.items()
        if not worker.up
    ]
    if error := shown.generate_error:
        text = f"The last generation was lost: {error.what}."
        warnings.append(_warning("generation_failing", text, error.fix or "It is tried again."))
    all_stats = (done.updated.stats for done in reversed(progress.history.rounds))
    last = next((stats for stats in all_stats if stats and stats.num_steps), None)
    if last and last.slow_cost is not None:
        text = f"Updates are slow, {last.slow_cost:.1f} times the tokens go through the model: {last.self_check}."
        warnings.append(_warning("slow_update", text, "Models like Qwen2.5 and Llama train faster."))
    if shown.canary.fell:
        fix = "docs/guards.md says what to look at; experience.mix = I/0 shuts others out."
        warnings.append(_warning("canary_fell", shown.canary.fell, fix))
    if shown.canary.kept_out:
        warnings.append(
            _warning("others_kept_out", shown.canary.kept_out, "It ends by itself; see docs/guards.md.")
        )
    if error := shown.checkpoint_error:
        code = "disk_low" if isinstance(error, DiskFull) else "checkpoint_failing"
        text = f"The last checkpoint was not written: {error.what}. Training goes on."
        warnings.append(_warning(code, text, error.fix or error.why))
    return warnings


def _network_stats(network: NetworkShown) -> dict[str, object]:
    if network.stats is None:
        return {}
    num = {"accepted": Verdict.ACCEPT, "ignored": Verdict.IGNORE, "rejected": Verdict.REJECT}
    return {**network.stats.to_document(), **{name: network.num(verdict) for name, verdict in num.items()}}


def _warning(code: str, text: str, fix: str) -> dict[str, str]:
    return {"code": code, "text": text, "fix": fix}


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
