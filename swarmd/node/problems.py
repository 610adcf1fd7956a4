"""Problems: what is wrong with a node, each with a code, a text and what to do; and those that show at a glance."""

from collections.abc import Mapping
from typing import NamedTuple

from swarmd.clients.worker import Worker
from swarmd.errors import DiskFull
from swarmd.files.datadir import DataDir
from swarmd.loops.progress import Progress
from swarmd.metrics.labels import UNHEALTHY

# A child answers a ping in milliseconds, and is replaced after 40 s without an answer.
SILENT_S_MAX = 15.0


class Problem(NamedTuple):
    """Something that is wrong. `unhealthy`: the node does not do its work, or loses it."""

    code: str
    text: str
    fix: str

    @property
    def unhealthy(self) -> bool:
        return self.code in UNHEALTHY

    def to_document(self) -> dict[str, object]:
        return {**self._asdict(), "unhealthy": self.unhealthy}


def at_a_glance(
    progress: Progress, workers: Mapping[str, Worker], data_dir: DataDir, *, solo: bool
) -> list[Problem]:
    """What shows at any moment."""
    problems, shown = [], progress.shown
    if not solo and not shown.network.peers:
        problems.append(
            Problem(
                "no_peers",
                "No peer is connected.",
                "See `swarmd bootstrap check`; training goes on with own rollouts.",
            )
        )
    stats = shown.network.stats
    for address, state in stats.bootstrap.items() if stats else ():
        if state == "wrong_peer_id":
            text = f"Another node than named answers at {address}."
            problems.append(
                Problem("bootstrap_wrong_peer", text, "The list is stale, or somebody stands in between.")
            )
    if stats and stats.outside.reachable is False:
        text = (
            f"Nobody outside can connect to this node: {stats.outside.num_failed} of"
            f" {stats.outside.num_failed + stats.outside.num_reached} that tried failed at {stats.outside.hosts[0]}."
        )
        fix = "Forward the port of --listen on the router, or leave it: rollouts flow through any peer that can be reached."
        problems.append(Problem("not_reachable", text, fix))
    for name, worker in workers.items():
        if worker.info is None:
            continue  # it starts for the first time
        if not worker.up:
            problems.append(
                Problem(
                    "worker_restarting",
                    f"The {name} process is being replaced.",
                    f"See {data_dir.log(name)}.",
                )
            )
        elif worker.silent_s > SILENT_S_MAX:
            text = f"The {name} process has not answered for {worker.silent_s:.0f} s."
            problems.append(
                Problem(
                    "worker_silent", text, "It is replaced soon. Was it stopped, or does the machine swap?"
                )
            )
    if error := shown.generate_error:
        text = f"The last generation was lost: {error.what}."
        problems.append(Problem("generation_failing", text, error.fix or "It is tried again."))
    if error := shown.buffer_error:
        text = f"The buffer cannot be used: {error.what}. Rounds go without rollouts of others."
        problems.append(Problem("buffer_failing", text, error.fix or error.why))
    all_stats = (done.updated.stats for done in reversed(progress.history.rounds))
    last = next((stats for stats in all_stats if stats and stats.num_steps), None)
    if last and last.slow_cost is not None:
        text = f"Updates are slow, {last.slow_cost:.1f} times the tokens go through the model: {last.self_check}."
        problems.append(Problem("slow_update", text, "Models like Qwen2.5 and Llama train faster."))
    if shown.canary.fell:
        fix = "docs/guards.md says what to look at; experience.mix = I/0 shuts others out."
        problems.append(Problem("canary_fell", shown.canary.fell, fix))
    if shown.canary.kept_out:
        problems.append(
            Problem("others_kept_out", shown.canary.kept_out, "It ends by itself; see docs/guards.md.")
        )
    if error := shown.checkpoint_error:
        code = "disk_low" if isinstance(error, DiskFull) else "checkpoint_failing"
        text = f"The last checkpoint was not written: {error.what}. Training goes on."
        problems.append(Problem(code, text, error.fix or error.why))
    return problems
