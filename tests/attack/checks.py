"""What has to hold after everything: each a line with PASS or FAIL, and what was found. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmd.swarm.dialling import DIALS_MAX
from swarmd.swarm.hints import FAILURES_MAX
from tests.attack.looks import Book, Look
from tests.attack.probes import Probed
from tests.attack.rows import Row, lost
from tests.attack.window import Window, idle_in

# Of the undisturbed control: the bar of the project's acceptance.
REWARD_SHARE_MIN = 0.95
# Of a core, beyond quiet time, for the network of one node. Handshakes with ever new identities are most of it.
RPC_CPU_SHARE_MAX = 0.15
# Why a scorer gave 0, where only a text that was run can be the cause.
RUN_TEXT = frozenset({"forbidden_syscall", "forged_reply", "worker_died", "zygote_died"})

FAILED_CONNECTION = 'control_connections_total{end="failed"'


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


def probes_were_answered(probed: Mapping[str, Probed]) -> Check:
    """Prometheus, the health probe and the operator got every answer in time; an attack in which nobody asked proves nothing."""
    bad = [f"{what} in {name}" for name, one in probed.items() for what in one.unanswered]
    bad += [f"nobody asked in {name}" for name, one in probed.items() if not one.num]
    slowest = max(((one.slowest_s, name) for name, one in probed.items()), default=(0.0, "none"))
    told = (
        f"{sum(one.num for one in probed.values())} questions, the slowest {slowest[0]:.1f} s in {slowest[1]}"
    )
    return Check(
        "every honest node answered its probes and its operator during every attack",
        not bad,
        ", ".join(bad[:10]) or told,
    )


def no_connection_failed(looks: Sequence[Look]) -> Check:
    """No exception ended a connection to a local socket of any node; metrics that were not read prove nothing."""
    ends = {
        one.name: {name: num for name, num in one.metrics.items() if FAILED_CONNECTION in name}
        for one in looks
    }
    bad = [
        f"{name} {sum(found.values()):.0f}"
        for name, found in ends.items()
        if not found or sum(found.values())
    ]
    return Check("no exception ended a connection to a local socket", not bad, ", ".join(bad))


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


def no_honest_peer_ever_banned(books: Mapping[str, Book], honest: frozenset[str]) -> Check:
    """No node remembers a ban of an honest one, over or not: the list of bans shows only those that hold.

    A book that knows no honest author proves nothing, and fails.
    """
    bad = [
        f"{name} banned {peer} {num}x"
        for name, book in books.items()
        for peer, num in book.num_bans.items()
        if num and peer in honest
    ]
    bad += [
        f"{name} has no standing of any honest node"
        for name, book in books.items()
        if not honest & book.num_scored.keys()
    ]
    return Check("no honest node ever banned another honest one", not bad, ", ".join(bad))


def cheap_names_prove_nothing(
    books: Mapping[str, Book], cheap: frozenset[str], honest: frozenset[str], proven_rollouts: int
) -> Check:
    """No name that sent empty texts is proven anywhere; each honest node, a newcomer at first, has proven another one.

    A book that scored nothing of such names proves nothing, and fails.
    """
    proven = {
        name: {peer for peer, proof in book.proof.items() if proof >= proven_rollouts}
        for name, book in books.items()
    }
    bad = [f"{name} has {len(found & cheap)} proven" for name, found in proven.items() if found & cheap]
    bad += [f"{name} has no honest node proven" for name, found in proven.items() if not found & honest]
    num = sum(len(cheap & book.num_scored.keys()) for book in books.values())
    bad += [] if num else ["nothing of these names was scored"]
    return Check(
        "no name is proven by empty texts, and honest newcomers are proven",
        not bad,
        ", ".join(bad) or f"{num} names",
    )


def scorer_found_nothing(looks: Sequence[Look]) -> Check:
    """No node's scorer found what only a text that was run can have done, by the reasons for which it gave 0.

    `forbidden_syscall` is death by seccomp, `forged_reply` a worker that answers what ours never does, `worker_died` one that left
    (a text that was run can call `_exit`), `zygote_died` the same of what forks them. No text of the attack gets to any of these by
    mere size or depth: those are turned away (`oversize`, `answer_too_long`, `refused`). `deadline` and `cpu_limit` are left out:
    a busy machine alone can bring them about. A node whose metrics were not read proves nothing, nor does one that scored nothing
    of what it was handed; who was handed nothing, behind mute bootstraps alone, has nothing to score.
    """
    bad = [f"{one.name} {reason} {num:.0f}" for one in looks for reason, num in one.unscored.items()
           if num and reason in RUN_TEXT]  # fmt: skip
    bad += [f"{one.name} shows no scoring" for one in looks
            if not one.metrics.get("verify_seconds_count") and (one.stats.get("accepted") or not one.metrics)]  # fmt: skip
    seen: Counter[str] = Counter()
    for one in looks:
        seen.update({reason: int(num) for reason, num in one.unscored.items()})
    told = ", ".join(f"{reason} {num}" for reason, num in seen.most_common())
    return Check("no scorer's worker was killed, lost or deceived by a text", not bad, ", ".join(bad) or told)


def attacks_began(idle: Mapping[str, Sequence[str]], log: object) -> Check:
    """Every attack got something to a victim, or a connection; `idle` are those that had not when their window began."""
    bad = [f"{who} in {name}" for name, found in idle.items() for who in found]
    return Check("every attack reached a victim", not bad, f"not {', '.join(bad)}; see {log}" if bad else "")


def attacks_went_on(windows: Mapping[str, Window]) -> Check:
    """Every attack did something in its window: sent, dialled, or held its connections."""
    bad = [f"{attack} in {name}" for name, one in windows.items() for attack in idle_in(one.counted)]
    bad += [f"all of {name}" for name, one in windows.items() if not one.counted]
    return Check("every attack went on through its window", not bad, ", ".join(bad))


def attackers_lived(dead: Mapping[str, Sequence[str]]) -> Check:
    """No attacker's process ended before the harness ended it; `dead` by window."""
    bad = [f"{who} in {name}" for name, found in dead.items() for who in found]
    return Check("every attacker's process lived until it was ended", not bad, ", ".join(bad))


def honest_stay_connected(apart: Mapping[str, Sequence[str]]) -> Check:
    """After each attack every honest node was connected to every other."""
    bad = [f"{', '.join(nodes)} after {name}" for name, nodes in apart.items() if nodes]
    return Check("honest nodes stayed connected, or were again within a minute", not bad, "; ".join(bad))


def third_party_spared(calls: Mapping[str, int], num_nodes: int) -> Check:
    """Whom hostile peers named was called by each honest node no more often than a machine of its own network is within an hour.

    A cannon that no node fired has shown nothing, and fails; after a first one, the hour may be used up.
    """
    num, most = sum(calls.values()), num_nodes * (DIALS_MAX + FAILURES_MAX["machine"] - 1)
    return Check(
        "a third party that hostile peers named was left alone",
        num <= most and (num > 0 or not calls),
        f"{num} calls, at most {most} in an hour" if calls else "",
    )


def broken_rpcs_banned(rows: Mapping[str, Row], num_nodes: int) -> Check:
    """Whoever sends RPCs out of bounds was banned, and the process of the network spent little on them.

    Args:
        rows: of the windows in which that was the only attack.
    """
    bad = []
    for name, row in rows.items():
        share = (row.cpu_s["network"] - row.quiet_cpu_s["network"]) / (num_nodes * row.seconds)
        if not row.banned:
            bad.append(f"no ban in {name}")
        if share > RPC_CPU_SHARE_MAX:
            bad.append(f"{share:.0%} of a core in {name}, at most {RPC_CPU_SHARE_MAX:.0%}")
    return Check("who sent RPCs out of bounds was banned, for little work", not bad, ", ".join(bad))


def clean_terminal(output: str) -> Check:
    """What the commands of an operator print holds no control character of a stranger's."""
    bad = sorted({char for char in output if not char.isprintable() and char not in "\n\t"})
    return Check("no control character of a peer reached the terminal", not bad, ", ".join(map(repr, bad)))
