"""What the attacks cost in learning: held-out reward of attacked swarms against undisturbed ones, seed by seed."""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from swarmd.experiment.swarms.guard import Guard
from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from tests.attack.checks import REWARD_SHARE_MIN, Check
from tests.attack.deeds import TOGETHER_GROUPS
from tests.attack.looks import Look, gaps, look, records, words_of_trouble
from tests.attack.traps import Traps
from tests.attack.window import Attackers, Scene

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
    """One run of one seed: held-out means and errors of each node by round, and what was seen last of each."""

    seed: int
    arm: str
    seconds: float
    curves: list[list[tuple[int, float, float]]]
    used_of_hostile: int
    used: int
    lost: dict[str, str]
    sprung: list[str]
    restarts: int
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
    arm = "attacked" if attacked else "control"
    began = time.monotonic()
    arguments = (*SETTINGS, "--rounds", str(rounds), "--set", f"evaluate.every_rounds={every}")
    with (
        Traps(root / "markers") as traps,
        Guard() as guard,
        LocalSwarm(root, NUM_HONEST, seed, arguments) as swarm,
    ):
        swarm.start()
        for node in swarm.nodes:
            if node.process is not None:
                guard.watch(node.process.pid)
        last: dict[str, Look] = {}
        counted: dict[str, dict[str, int]] = {}
        if attacked:
            _wait_until_listening(swarm)
            scene = Scene("tiny", [node.address for node in swarm.nodes], traps.markers, traps.port, seed)
            with Attackers(groups, scene, guard, root / "attackers.log") as attackers:
                _wait_until_ended(swarm, last)
                counted = {name: dict(found) for name, found in attackers.counted.items()}
        else:
            _wait_until_ended(swarm, last)
        honest = {node.identity.peer_id for node in swarm.nodes}
        used = _used(swarm)
        return Trial(
            seed=seed,
            arm=arm,
            seconds=round(time.monotonic() - began, 1),
            curves=[_curve(node, rounds) for node in swarm.nodes],
            used_of_hostile=sum(num for author, num in used.items() if author not in honest),
            used=sum(used.values()),
            lost=_losses(swarm),
            sprung=traps.sprung(),
            restarts=sum(one.restarts for one in last.values()),
            counted=counted,
        )


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
            if (found := look(node)).answers:
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


def _losses(swarm: LocalSwarm) -> dict[str, str]:
    found = {}
    for node in swarm.nodes:
        missing = gaps(record["round"] for record in records(node))
        words = [f"{sign!r} {num}x" for sign, num in words_of_trouble(node.output()).items()]
        if missing or words:
            found[node.name] = ", ".join([*(f"gap after {number}" for number in missing), *words])
    return found


@dataclass(frozen=True)
class Pair:
    """One seed, both ways."""

    control: Trial
    attacked: Trial

    @property
    def share(self) -> float:
        """Held-out reward of the attacked swarm in that of the control."""
        return self.attacked.held_out / self.control.held_out

    @property
    def error(self) -> float:
        """Its standard error, from the spread over the nodes of each."""
        parts = (trial.error / trial.held_out for trial in (self.attacked, self.control))
        return self.share * math.hypot(*parts)


def run_pairs(root: Path, seeds: Sequence[int], rounds: int, say: Callable[[str], None]) -> list[Pair]:
    """Control and attacked swarm of each seed."""
    pairs = []
    for seed in seeds:
        trials = []
        for attacked in (False, True):
            trial = run_trial(
                root / f"seed-{seed}" / ("attacked" if attacked else "control"),
                seed,
                rounds,
                attacked=attacked,
            )
            say(
                f"seed {seed} {trial.arm}: held-out {trial.held_out:.3f} ± {trial.error:.3f}, {trial.seconds:.0f} s"
            )
            trials.append(trial)
        pairs.append(Pair(*trials))
    return pairs


def pairs_table(pairs: Sequence[Pair]) -> str:
    """All seeds, and their mean with its standard error."""
    lines = [
        f"{'seed':>4}{'control':>18}{'attacked':>18}{'attacked in control':>22}{'hostile of used':>18}{'seconds':>14}"
    ]
    for pair in pairs:
        control, attacked = pair.control, pair.attacked
        cells = [f"{trial.held_out:.3f} ± {trial.error:.3f}" for trial in (control, attacked)]
        lines.append(
            f"{control.seed:>4}{cells[0]:>18}{cells[1]:>18}{f'{pair.share:.1%} ± {pair.error:.1%}':>22}"
            f"{f'{attacked.used_of_hostile} of {attacked.used}':>18}{f'{control.seconds:.0f}, {attacked.seconds:.0f}':>14}"
        )
    shares = [pair.share for pair in pairs]
    spread = f" ± {stdev(shares) / math.sqrt(len(shares)):.1%}" if len(shares) > 1 else ""
    lines.append(f"mean{f'{mean(shares):.1%}{spread}':>58}")
    return "\n".join(lines)


def pair_checks(pairs: Sequence[Pair]) -> list[Check]:
    """What has to hold of them."""
    share = mean(pair.share for pair in pairs)
    trials = [trial for pair in pairs for trial in (pair.control, pair.attacked)]
    each = ", ".join(f"seed {pair.control.seed} {pair.share:.1%}" for pair in pairs)
    lost = [
        f"seed {trial.seed} {trial.arm} {name}: {what}"
        for trial in trials
        for name, what in trial.lost.items()
    ]
    sprung = [what for trial in trials for what in trial.sprung]
    restarts = sum(trial.restarts for trial in trials)
    return [
        Check(
            f"held-out reward is at least {REWARD_SHARE_MIN:.0%} of the control's",
            share >= REWARD_SHARE_MIN,
            each,
        ),
        Check("no honest node lost a round of its own while it learned", not lost, "; ".join(lost)),
        Check(
            "no honest node restarted a child while it learned",
            not restarts,
            f"{restarts} restarts" if restarts else "",
        ),
        Check("no code of a stranger ran while it learned", not sprung, ", ".join(sprung[:5])),
    ]


def as_plain(pair: Pair) -> dict[str, Any]:
    """For the report."""
    return {
        "control": asdict(pair.control),
        "attacked": asdict(pair.attacked),
        "share": pair.share,
        "error": pair.error,
    }
