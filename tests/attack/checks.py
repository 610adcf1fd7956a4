"""What has to hold after everything: each a line with PASS or FAIL, and what was found. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.attack.looks import Look
from tests.attack.rows import lost
from tests.attack.window import Window

# Of the undisturbed control: the bar of the project's acceptance.
REWARD_SHARE_MIN = 0.95


@dataclass(frozen=True)
class Check:
    """One line; `detail` says what was found."""

    name: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{'PASS' if self.passed else 'FAIL'}  {self.name}" + (
            f": {self.detail}" if self.detail else ""
        )


def no_code_ran(sprung: Sequence[str]) -> Check:
    """The traps are as they were set."""
    return Check(
        "no code of a stranger ran, no file was made, no socket opened", not sprung, ", ".join(sprung[:5])
    )


def nobody_restarted(looks: Sequence[Look]) -> Check:
    """Every honest node is the process that was started, and so are its children."""
    bad = [f"{one.name} {one.restarts} restarts" if one.running else f"{one.name} ended" for one in looks
           if one.restarts or not one.running]  # fmt: skip
    return Check("no honest node crashed or restarted a child", not bad, ", ".join(bad))


def everybody_answers(windows: Mapping[str, Window]) -> Check:
    """The control interface of every node answered at both ends of every window."""
    bad = [
        f"{look.name} in {name}"
        for name, one in windows.items()
        for look in (*one.before, *one.after)
        if not look.answers
    ]
    return Check("every honest node answered its operator throughout", not bad, ", ".join(bad))


def no_round_lost(
    looks: Sequence[Look], gaps: Mapping[str, Sequence[int]], trouble: Mapping[str, str]
) -> Check:
    """Rounds go up one by one and none failed."""
    bad = [f"{one.name} lost {lost(one.metrics):.0f}" for one in looks if lost(one.metrics)]
    bad += [f"{name} has a gap after round {found[0]}" for name, found in gaps.items() if found]
    bad += [f"{name} says {words}" for name, words in trouble.items() if words]
    return Check("no honest node lost a round of its own", not bad, ", ".join(bad))


def rounds_went_on(windows: Mapping[str, Window]) -> Check:
    """Every node did a round in every window."""
    bad = [
        f"{after.name} in {name}"
        for name, one in windows.items()
        for before, after in one.pairs()
        if after.round <= before.round
    ]
    return Check("every honest node went on with its rounds in every window", not bad, ", ".join(bad))


def no_honest_peer_blamed(looks: Sequence[Look], honest: frozenset[str]) -> Check:
    """No honest node holds a rejected message against another honest one."""
    bad = [
        f"{one.name} rejected {num} of {peer}"
        for one in looks
        for peer, num in one.rejected_of.items()
        if num and peer in honest
    ]
    return Check(
        "no honest node rejected a message that another honest one handed on", not bad, ", ".join(bad)
    )


def no_honest_peer_banned(lists: Mapping[str, str], honest: frozenset[str]) -> Check:
    """No node names an honest one in its list of bans (`swarmd peers bans`)."""
    bad = [f"{name} banned {peer}" for name, text in lists.items() for peer in honest if peer in text]
    return Check("no honest node banned another honest one", not bad, ", ".join(bad))


def honest_stay_connected(apart: Mapping[str, Sequence[str]]) -> Check:
    """After each attack every honest node was connected to every other."""
    bad = [f"{', '.join(nodes)} after {name}" for name, nodes in apart.items() if nodes]
    return Check("honest nodes stayed connected, or were again within a minute", not bad, "; ".join(bad))


def clean_terminal(output: str) -> Check:
    """What the commands of an operator print holds no control character of a stranger's."""
    bad = sorted({char for char in output if not char.isprintable() and char not in "\n\t"})
    return Check("no control character of a peer reached the terminal", not bad, ", ".join(map(repr, bad)))
