"""What the attacks cost in learning: held-out reward of attacked swarms against undisturbed ones, seed by seed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from tests.attack.checks import REWARD_SHARE_MIN, Check
from tests.attack.trial import Trial, run_trial

# Of a seed's own standard errors: what one seed may be below the bar and still be noise (one in forty, were they normal).
ERRORS_MAX = 2.0


@dataclass(frozen=True)
class Pair:
    """One seed, both ways."""

    control: Trial
    attacked: Trial

    @property
    def share(self) -> float:
        """Held-out reward of the attacked swarm in that of the control; 0 where the control earned nothing."""
        return self.attacked.held_out / self.control.held_out if self.control.held_out else 0.0

    @property
    def error(self) -> float:
        """Its standard error, from the spread over the nodes of each."""
        parts = (trial.error / (trial.held_out or 1.0) for trial in (self.attacked, self.control))
        return self.share * math.hypot(*parts)


def run_pairs(
    root: Path, seeds: Sequence[int], rounds: int, say: Callable[[str], None]
) -> tuple[list[Pair], list[Check]]:
    """Control and attacked swarm of each seed; one that did not get to the end is a failed check, and the next follows."""
    pairs, failed = [], []
    for seed in seeds:
        try:
            pairs.append(_pair(root / f"seed-{seed}", seed, rounds, say))
        except (RuntimeError, OSError, ValueError) as error:
            say(f"seed {seed} failed: {error}")
            failed.append(Check(f"both swarms of seed {seed} learned to the end", False, str(error)))
    return pairs, failed


def _pair(root: Path, seed: int, rounds: int, say: Callable[[str], None]) -> Pair:
    trials = []
    for attacked in (False, True):
        trial = run_trial(root / ("attacked" if attacked else "control"), seed, rounds, attacked=attacked)
        say(
            f"seed {seed} {trial.arm}: held-out {trial.held_out:.3f} ± {trial.error:.3f}, {trial.seconds:.0f} s"
        )
        trials.append(trial)
    return Pair(*trials)


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
    """What has to hold of them; nothing, when there is no pair."""
    if not pairs:
        return []
    each = ", ".join(f"seed {pair.control.seed} {pair.share:.1%} ± {pair.error:.1%}" for pair in pairs)
    share = mean(pair.share for pair in pairs)
    low = [pair for pair in pairs if pair.share + ERRORS_MAX * pair.error < REWARD_SHARE_MIN]
    return [
        Check(
            f"held-out reward is at least {REWARD_SHARE_MIN:.0%} of the control's in the mean over the seeds",
            share >= REWARD_SHARE_MIN,
            f"mean {share:.1%}; {each}",
        ),
        Check(
            f"no single seed is below {REWARD_SHARE_MIN:.0%} by more than {ERRORS_MAX:.0f} of its standard errors",
            not low,
            ", ".join(f"seed {pair.control.seed} {pair.share:.1%} ± {pair.error:.1%}" for pair in low),
        ),
        _controls_learned(pairs),
        *merged([trial for pair in pairs for trial in (pair.control, pair.attacked)]),
    ]


def _controls_learned(pairs: Sequence[Pair]) -> Check:
    """Undisturbed swarms got better than they began: a share of what was never learnt says nothing."""
    told = [
        f"seed {pair.control.seed} {pair.control.first:.3f} to {pair.control.held_out:.3f}" for pair in pairs
    ]
    learned = all(
        pair.control.held_out > pair.control.first + ERRORS_MAX * pair.control.error for pair in pairs
    )
    return Check("the controls learned", learned, ", ".join(told))


def merged(trials: Sequence[Trial]) -> list[Check]:
    """The checks of all trials, one line for each name: it holds when it holds of every trial that has it."""
    names = dict.fromkeys(check.name for trial in trials for check in trial.checks)
    found = []
    for name in names:
        same = [(trial, check) for trial in trials for check in trial.checks if check.name == name]
        passed = all(check.passed for _, check in same)
        told = [
            f"seed {trial.seed} {trial.arm}: {check.detail}"
            for trial, check in same
            if check.detail and check.passed == passed
        ]
        found.append(Check(f"learning swarms: {name}", passed, "; ".join(told)))
    return found


def as_plain(pair: Pair) -> dict[str, Any]:
    """For the report."""
    return {
        "control": asdict(pair.control),
        "attacked": asdict(pair.attacked),
        "share": pair.share,
        "error": pair.error,
    }
