"""What is claimed, as data: two arms, a measure, an axis, a bar and a direction. Verdicts follow from these and the cells."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from swarmd.experiment.arms import GROUPS
from swarmd.experiment.reporting.measures import (
    FRESH,
    GENERATED,
    HELD_OUT,
    LEVEL_SHARE,
    ROUND,
    SECONDS,
    TRAINED,
)

SILO, PAPER_BEST = "8/0", "4/4"
# Published cumulative fresh rewards over that of 8/0 (arXiv 2509.08721, table of the controlled experiment).
PUBLISHED = {"4/4": 1.94, "2/6": 1.68, "6/2": 1.52}
CONTROLS = GROUPS["controls"]
GUARDED = f"{PAPER_BEST} guarded"
NAMED = (SILO, *PUBLISHED, *CONTROLS, GUARDED)

# The training set's reward depends on what the filter lets through, so it compares no arms.
REWARDS_COMPARED = (FRESH, HELD_OUT)

# How an arm's name says that only the learning rate is another: `4/4 1e-3`.
RATE = r"\d+(?:\.\d+)?e-\d+"

RATIO, DIFFERENCE, EACH_NODE = "ratio", "difference", "each node"
LARGER, SMALLER = "larger", "smaller"
DROP, FOREIGN, TO_LEVEL = "held_out_drop", "foreign_held_out", "rounds to level"
END = "held_out_final"
# Fewest seeds that decide anything, and fewest for a claim to beat the paper.
SEEDS_MIN, SEEDS_MIN_BEST = 3, 5
# What our own trial of two seeds suggested for 4/4 over 8/0.
EXPECTED = 1.4
# "Ahead", for a new arm; and what still counts as "not worse": a loss of at most a tenth.
AHEAD, NOT_WORSE = 1.25, 0.9
# What the guards against strangers may cost a swarm without any: 3 % of its held-out reward.
GUARDED_MIN = 0.97


@dataclass(frozen=True)
class Hypothesis:
    """`arm` against `against` in `scenario`: the `statistic` of `measure` over `axis` is `claim` than `bar`.

    `beside` says in words what `against` is, where its name does not.
    """

    group: str
    arm: str
    against: str
    measure: str
    axis: str = ROUND
    bar: float = 1.0
    claim: str = LARGER
    statistic: str = RATIO
    scenario: str = "alike"
    published: float | None = None
    seeds_min: int = SEEDS_MIN
    beside: str = ""

    @property
    def question(self) -> str:
        """The claim as a question to which the verdict is the answer."""
        arm, other, bar = self.arm, self.beside or self.against, f"{self.bar:g}"
        if self.measure == TO_LEVEL:
            return (
                f"With {arm}, does a late joiner reach {LEVEL_SHARE:.0%} of the swarm's final held-out reward in at most half"
                f" the rounds of one that trains alone with {other}?"
            )
        if self.measure == FOREIGN:
            of = "for each single node" if self.statistic == EACH_NODE else "mean over nodes"
            return (
                f"With {arm}, is held-out reward on datasets that a node never generated above that of nodes trained alone with"
                f" {other} ({of})?"
            )
        if self.measure == DROP and self.claim == LARGER:
            return f"Does {arm} oscillate more than {other} (largest drop of held-out reward)?"
        if self.measure == DROP:
            return f"Is the largest drop of held-out reward in {arm} at most {bar} times that in {other}?"
        if self.measure == END and self.bar == 1:
            return f"Does {arm} end with more held-out reward than {other}?"
        if self.measure == END:
            return f"Does {arm} end with {bar} times or more of the held-out reward of {other}?"
        what = (
            f"{self.measure} reward per {self.axis}"
            if self.axis != ROUND
            else f"cumulative {self.measure} reward"
        )
        if self.bar < 1:
            return f"Is {arm} not worse than {other} in {what} (at least {bar} times)?"
        times = f" by {bar} times or more" if self.bar > 1 else ""
        return f"Is {arm} ahead of {other}{times} in {what}?"


def hypotheses(scenario: str, arms: Iterable[str]) -> list[Hypothesis]:
    """All that is claimed of a scenario, given the arms that were run in it.

    The paper's table and its controls are asked of like nodes even where they were not run, so that a gap shows.
    """
    arms = list(arms)
    if scenario in ("specialised", "late"):
        special = _specialised if scenario == "specialised" else _late
        found = [h for arm in arms if shares(arm) for silo in silos_of(arm, arms) for h in special(arm, silo)]
        found += _table()
    else:
        found = [
            *_table(),
            *_oscillation(),
            *_controls(),
            *_best(arms),
            *_same_rate(arms),
            *_other_settings(arms),
            *_guards(arms),
        ]
    found = _with_ends(found)
    if scenario == "alike":
        return found
    known = [replace(h, scenario=scenario, published=None) for h in found]
    return [h for h in known if {h.arm, h.against} <= set(arms)]


def mix(arm: str) -> tuple[int, int] | None:
    """I and J of an arm, from its name; None for a name that begins otherwise."""
    found = re.match(r"(\d+)/(\d+)(?![\d/])", arm)
    return (int(found[1]), int(found[2])) if found else None


def shares(arm: str) -> bool:
    """Whether an arm uses rollouts of others; an unknown name is taken to."""
    found = mix(arm)
    return (found is None or found[1] > 0) and not arm.endswith(" self")


def silos_of(arm: str, arms: Iterable[str]) -> list[str]:
    """What trains alone and is to be compared with `arm`: the paper's silo, and one with the settings that end the arm's name."""
    alone = [a for a in arms if (found := mix(a)) is not None and found[1] == 0 and a.partition(" ")[2]]
    return [SILO, *(silo for silo in alone if arm.endswith(f" {silo.partition(' ')[2]}"))]


def _with_ends(found: list[Hypothesis]) -> list[Hypothesis]:
    """Behind each claim on the area under held-out reward the one on its end: who took off sooner need not be ahead then."""
    both, known = [], set()
    for h in found:
        both.append(h)
        pair = (h.arm, h.against)
        if (h.measure, h.axis, h.claim) == (HELD_OUT, ROUND, LARGER) and pair not in known:
            known.add(pair)
            both.append(replace(h, measure=END, bar=min(h.bar, 1.0), published=None))
    return both


def _table() -> list[Hypothesis]:
    return [
        Hypothesis("The paper's table", arm, SILO, reward, published=factor)
        for reward in REWARDS_COMPARED
        for arm, factor in PUBLISHED.items()
    ]


def _oscillation() -> list[Hypothesis]:
    group, published = "The paper's table", PUBLISHED[PAPER_BEST]
    return [
        Hypothesis(group, PAPER_BEST, SILO, FRESH, bar=EXPECTED, published=published),
        Hypothesis(group, "2/6", PAPER_BEST, DROP),
    ]


def _controls() -> list[Hypothesis]:
    """4/4 against each control; and against the silo by what it costs."""
    asked = (
        ("The filter", "8/0 dynamic", f"{SILO} with dynamic sampling", (ROUND, GENERATED, SECONDS)),
        ("Other minds, or more signal", "4/4 self", "the same with its own older rollouts in place of the peers',", (ROUND,)),
        ("Equal generation", "4/0", "4/0, which generates as much and uses nothing else,", (ROUND,)),
        ("Cost", SILO, "", (GENERATED, TRAINED, SECONDS)),
    )  # fmt: skip
    return [
        Hypothesis(group, PAPER_BEST, against, reward, axis, beside=beside)
        for group, against, beside, axes in asked
        for reward in REWARDS_COMPARED
        for axis in axes
    ]


def _ahead(group: str, arm: str, against: str) -> Hypothesis:
    """A claim to beat what is known takes more seeds than others."""
    return Hypothesis(group, arm, against, HELD_OUT, bar=AHEAD, seeds_min=SEEDS_MIN_BEST)


def _not_worse(group: str, arm: str, against: str) -> Hypothesis:
    return Hypothesis(group, arm, against, HELD_OUT, bar=NOT_WORSE)


def _calm(group: str, arm: str, against: str) -> Hypothesis:
    return Hypothesis(group, arm, against, DROP, bar=0.5, claim=SMALLER)


def _uses_more_of_others(arm: str) -> bool:
    share = mix(arm)
    return share is not None and share[1] > share[0]


def _best(arms: list[str]) -> list[Hypothesis]:
    """Arms with names of their own that share: candidates to beat the paper's."""
    found, group = [], "Beyond the paper"
    for arm in (arm for arm in arms if arm not in NAMED and shares(arm)):
        found += [_ahead(group, arm, PAPER_BEST), _not_worse(group, arm, PAPER_BEST)]
        found += [Hypothesis(group, arm, PAPER_BEST, HELD_OUT, axis) for axis in (GENERATED, SECONDS)]
        if _uses_more_of_others(arm):
            found.append(_calm(group, arm, "2/6"))
    return found


def _same_rate(arms: list[str]) -> list[Hypothesis]:
    """A gain that a learning rate alone explains is none: the same against the paper's arms at a rate of their own."""
    found, group = [], "Beyond the paper, against the paper's arms at another learning rate"
    candidates = [arm for arm in arms if arm not in NAMED and shares(arm)]
    for base in (arm for arm in candidates if re.fullmatch(rf"{PAPER_BEST} {RATE}", arm)):
        for arm in (arm for arm in candidates if arm.endswith(base.partition(" ")[2]) and arm != base):
            if not re.fullmatch(rf"\d+/\d+ {RATE}", arm):  # one of the paper's arms itself
                found.append(_ahead(group, arm, base))
    for base in (arm for arm in candidates if re.fullmatch(rf"2/6 {RATE}", arm)):
        for arm in (arm for arm in candidates if arm != base and _uses_more_of_others(arm)):
            found += [_calm(group, arm, base), _not_worse(group, arm, base)]
    return found


def _other_settings(arms: list[str]) -> list[Hypothesis]:
    """A silo with other settings may be better than the paper's; and what shares with those settings is compared with it."""
    found = []
    for silo in (arm for arm in arms if arm not in NAMED and not shares(arm)):
        _, _, settings = silo.partition(" ")
        others = [arm for arm in arms if settings and shares(arm) and arm.endswith(f" {settings}")]
        for arm in (PAPER_BEST, *others):
            found += [Hypothesis("Other settings", arm, silo, reward) for reward in REWARDS_COMPARED]
    return found


def _guards(arms: list[str]) -> list[Hypothesis]:
    """Asked only where the guarded arm was run: it is no arm of the paper's."""
    group = "What the guards cost"
    return [
        Hypothesis(group, GUARDED, PAPER_BEST, reward, bar=GUARDED_MIN, seeds_min=SEEDS_MIN_BEST)
        for reward in (HELD_OUT, FRESH)
        if GUARDED in arms
    ]


def _specialised(arm: str, silo: str) -> list[Hypothesis]:
    return [
        Hypothesis("Specialised nodes", arm, silo, FOREIGN, bar=0.0, statistic=statistic)
        for statistic in (DIFFERENCE, EACH_NODE)
    ]


def _late(arm: str, silo: str) -> list[Hypothesis]:
    return [Hypothesis("Late joiners", arm, silo, TO_LEVEL, bar=0.5, claim=SMALLER)]
