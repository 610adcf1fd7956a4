"""One swarm that learns from its first round to its last, attacked all the time or never, and what has to hold of it."""

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from swarmd.experiment.swarms.reaper import Reaper
from tests.attack import checks
from tests.attack.attackers import Attackers, Scene
from tests.attack.checks import Check
from tests.attack.deeds import HARMFUL, TOGETHER_GROUPS
from tests.attack.looks import Look, book, look, losses, records
from tests.attack.probes import local_port
from tests.attack.ring import hostile_id
from tests.attack.traps import Traps

# Four honest nodes and one author of harmful rollouts: 20 % of the authors, were there no others. All else goes on beside it,
# but for two attacks whose rollouts this author sends already.
NUM_HONEST = 4
# 512 completions a node and evaluation, on the questions that all nodes of the swarm are measured on.
SETTINGS = (
    "--model", "tiny", "--device", "cpu", "--set", "policy.threads=1",
    "--set", "evaluate.num_questions=128", "--set", "evaluate.completions=4", "--set", "checkpoint.every_rounds=10",
)  # fmt: skip
# One node's held-out mean goes up and down by 0.03 on the plateau; four evaluations of it, averaged, by half of that.
EVERY = 25
# A swarm that is not done by then is stuck: rounds take a second on two busy cores.
TRIAL_S = 1500.0
ANSWERING_S = 240.0


@dataclass(frozen=True)
class Trial:
    """One run of one seed: held-out means and errors of each node by round, what was used, what was sent, and the checks.

    Attributes:
        used_of_hostile: rollouts in updates whose author is not one of the swarm.
        counted: what each attack counted by the end.
    """

    seed: int
    arm: str
    seconds: float
    curves: list[list[tuple[int, float, float]]]
    used_of_hostile: int
    used: int
    checks: list[Check] = field(default_factory=list)
    counted: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def levels(self) -> list[float]:
        """Each node's mean over its evaluations in the second half of its rounds, where the curve is flat."""
        half = self.curves[0][-1][0] / 2
        return [mean(value for number, value, _ in curve if number > half) for curve in self.curves]

    @property
    def held_out(self) -> float:
        """The mean of the nodes."""
        return mean(self.levels)

    @property
    def error(self) -> float:
        """The standard error of that mean over the nodes."""
        return stdev(self.levels) / math.sqrt(len(self.levels))

    @property
    def first(self) -> float:
        """The mean of the nodes' first evaluations, before anything was learnt."""
        return mean(curve[0][1] for curve in self.curves)


def run_trial(
    root: Path,
    seed: int,
    rounds: int,
    *,
    attacked: bool,
    every: int = EVERY,
    groups: Sequence[Sequence[str]] = TOGETHER_GROUPS,
) -> Trial:
    """One swarm from its start to the end of its rounds.

    Raises:
        RuntimeError: a node ended without its last evaluation.
    """
    began = time.monotonic()
    arguments = (*SETTINGS, "--rounds", str(rounds), "--set", f"evaluate.every_rounds={every}")
    found: list[Check] = []
    counted: dict[str, dict[str, int]] = {}
    with (
        Traps() as traps,
        Reaper() as reaper,
        LocalSwarm(root, NUM_HONEST, seed, arguments) as swarm,
    ):
        swarm.start()
        for node in swarm.nodes:
            if node.process is not None:
                reaper.watch(node.process.pid)
        last = {node.name: Look(node.name, False, False) for node in swarm.nodes}
        if attacked:
            _wait_until_listening(swarm)
            addresses, ports = (
                [node.address for node in swarm.nodes],
                [local_port(node) for node in swarm.nodes],
            )
            scene = Scene("tiny", addresses, traps.markers, traps.port, seed, local_ports=ports)
            log = root / "attackers.log"
            with Attackers(groups, scene, reaper, log) as attackers:
                attackers.wait_until_begun()
                found.append(checks.attacks_began({"the learning swarm": attackers.idle()}, log))
                found.append(began_in_time([look(node).round for node in swarm.nodes], rounds))
                _wait_until_ended(swarm, last)
                counted = {name: dict(numbers) for name, numbers in attackers.counted.items()}
                found.append(checks.attackers_lived({"the learning swarm": attackers.dead()}))
        else:
            _wait_until_ended(swarm, last)
        found += _judged(swarm, list(last.values()), traps.sprung())
        curves = [_curve(node, rounds) for node in swarm.nodes]
        honest = {node.identity.peer_id for node in swarm.nodes}
        used = _used(swarm)
        if attacked:
            harmful = hostile_id(HARMFUL, seed)
            scored = sum(book(node).num_scored.get(harmful, 0) for node in swarm.nodes)
            found.append(harm_was_offered(counted.get(HARMFUL, {}), scored, used[harmful]))
        return Trial(
            seed=seed,
            arm="attacked" if attacked else "control",
            seconds=round(time.monotonic() - began, 1),
            curves=curves,
            used_of_hostile=sum(num for author, num in used.items() if author not in honest),
            used=sum(used.values()),
            checks=found,
            counted=counted,
        )


def began_in_time(rounds_now: Sequence[int], rounds: int) -> Check:
    """The attack was on before the first half was over: only the second is compared."""
    latest = max(rounds_now)
    return Check(
        "all attacks had begun before the rounds that are compared",
        0 < latest <= rounds / 2,
        f"in round {latest} of {rounds}" if latest else "no node answered",
    )


def harm_was_offered(counted: Mapping[str, int], num_scored: int, num_used: int) -> Check:
    """The author of harmful rollouts sent some, and honest nodes scored them; how many they used is theirs to decide."""
    num = counted.get("rollouts", 0)
    return Check(
        "harmful rollouts were offered and scored",
        num > 0 and num_scored > 0,
        f"{num} offered, {num_scored} scored and {num_used} used by all nodes together",
    )


def _judged(swarm: LocalSwarm, last: Sequence[Look], sprung: Sequence[str]) -> list[Check]:
    """What holds of a swarm that learns, attacked or not."""
    honest = frozenset(node.identity.peer_id for node in swarm.nodes)
    return [
        checks.no_code_ran(sprung),
        checks.scorer_found_nothing(last),
        checks.nobody_restarted(last),
        checks.no_round_lost(last, *losses(swarm.nodes)),
        checks.no_honest_peer_blamed(last, honest),
        checks.no_honest_peer_ever_banned({node.name: book(node) for node in swarm.nodes}, honest),
    ]


def _wait_until_listening(swarm: LocalSwarm) -> None:
    """Returns when every node's network is up, or has had the time for it."""
    deadline = time.monotonic() + ANSWERING_S
    while time.monotonic() < deadline:
        if all((node.ask("/v1/status") or {}).get("network", {}).get("num_peers") for node in swarm.nodes):
            return
        time.sleep(0.5)


def _wait_until_ended(swarm: LocalSwarm, last: dict[str, Look]) -> None:
    """Returns when all nodes have ended by themselves; `last` keeps the newest look at each."""
    deadline = time.monotonic() + TRIAL_S
    while any(node.running for node in swarm.nodes) and time.monotonic() < deadline:
        for node in swarm.nodes:
            if (found := look(node)).answers and found.metrics:
                last[node.name] = found
        time.sleep(2)


def _curve(node: LocalNode, rounds: int) -> list[tuple[int, float, float]]:
    path = node.data_dir.evaluations
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not lines or lines[-1]["round"] != rounds:
        raise RuntimeError(f"{node.name} did not reach round {rounds}\n{node.output()[-1500:]}")
    return [(line["round"], line["mean"], line["standard_error"]) for line in lines]


def _used(swarm: LocalSwarm) -> Counter[str]:
    used: Counter[str] = Counter()
    for node in swarm.nodes:
        for record in records(node):
            used.update(record.get("used_by_author", {}))
    return used
