"""One row per attack: what it reached and what it cost, against quiet time of the same swarm. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from swarmd.protocol.rules import VERDICT_OF, Verdict
from tests.attack.looks import PARTS
from tests.attack.window import Window

# What gossip itself turned away before any rule, of its counters.
BELOW_RULES = (
    "low_score",
    "bad_signature",
    "bad_sender_record",
    "misframed_rpc",
    "rpc_out_of_bounds",
    "graylisted",
    "too_many_streams",
    "equivocation",
)

# What was accepted and not scored, by what its author had used up.
QUOTAS, DROPPED = ("bytes", "tokens", "cpu"), 'trust_dropped_total{reason="%s"}'
BANS = 'trust_bans_total{by="points"}'


@dataclass(frozen=True)
class Row:
    """Figures of one window, summed over the honest nodes.

    Attributes:
        sent: messages, or pieces of garbage, that a victim took off the attacker's hands; one for each victim.
        refused: those that it did not.
        held: connections that attackers held at the end.
        accepted: attackers' messages that passed the rules; about, since honest ones under way are not told apart.
        judged: messages of anybody not accepted, by rule, and those dropped before any rule.
        stored, used: attackers' rollouts in the buffers at the end, and those trained on in the window.
        banned: bans that the nodes spoke in the window.
        cpu_s: CPU seconds by part; quiet_cpu_s the same in as much quiet time.
        rounds, quiet_rounds: rounds done, and those that quiet time of this length would have had.
        lost: rounds that failed.
        reward, quiet_reward: mean own reward of the window's rounds, and of this swarm's quiet windows before and after it, which
            are no undisturbed control.
    """

    name: str
    text: str
    seconds: float
    sent: int
    refused: int
    dials: int
    held: int
    accepted: int
    judged: Mapping[str, int]
    stored: int
    used: int
    banned: int
    cpu_s: Mapping[str, float]
    quiet_cpu_s: Mapping[str, float]
    rounds: int
    quiet_rounds: float
    restarts: int
    lost: int
    attacker_cpu_s: float
    reward: float | None
    quiet_reward: float | None


def row_of(
    name: str,
    text: str,
    window: Window,
    quiet: Sequence[Window],
    hostile: frozenset[str],
    records: Sequence[Mapping[str, Any]] = (),
) -> Row:
    """The figures of a window in which the peers `hostile` were at it; `records` are all rounds of all honest nodes."""
    earlier = [one for one in quiet if one.began_ms <= window.began_ms]
    later = [one for one in quiet if one.began_ms > window.began_ms]
    calm_rewards = [reward for one in earlier[-1:] + later[:1] for reward in one.rewards(records)]
    counted = sum(window.counted.values(), Counter())
    share = window.seconds / sum(one.seconds for one in quiet)
    calm = [one.cpu_s() for one in quiet]
    return Row(
        name=name,
        text=text,
        seconds=round(window.seconds, 1),
        sent=counted["sent"],
        refused=counted["refused"],
        dials=counted["dials"],
        held=counted["held"],
        accepted=_accepted(window),
        judged=_judged(window),
        stored=sum(sum(one.stored_of.get(peer, 0) for peer in hostile) for one in window.after),
        used=int(window.growth(lambda one: sum(one.used_of.get(peer, 0) for peer in hostile))),
        banned=int(window.growth(lambda one: one.metrics.get(BANS, 0.0))),
        cpu_s=window.cpu_s(),
        quiet_cpu_s={part: share * sum(one[part] for one in calm) for part in PARTS},
        rounds=int(window.num_rounds),
        quiet_rounds=share * sum(one.num_rounds for one in quiet),
        restarts=int(window.growth(lambda one: one.restarts)),
        lost=int(window.growth(lambda one: lost(one.metrics))),
        attacker_cpu_s=window.attacker_cpu_s,
        reward=_mean(window.rewards(records)),
        quiet_reward=_mean(calm_rewards),
    )


def _told(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _mean(values: Sequence[float]) -> float | None:
    return mean(values) if values else None


def lost(metrics: Mapping[str, float]) -> float:
    """Rounds that failed, of a node's metrics; those without data or advantage are no loss."""
    return sum(
        metrics.get(f'train_skipped_steps_total{{reason="{reason}"}}', 0.0) for reason in ("failed", "oom")
    )


def _accepted(window: Window) -> int:
    """Accepted messages beyond those that the honest nodes published, each once to each other."""
    num = window.growth(lambda one: one.rules.get("accepted", 0))
    published = window.growth(lambda one: one.stats.get("published", 0))
    return max(0, int(num - published * (len(window.after) - 1)))


def _judged(window: Window) -> dict[str, int]:
    rules = [rule for rule, verdict in VERDICT_OF.items() if verdict is not Verdict.ACCEPT]
    found = {rule: window.growth(lambda one, rule=rule: one.rules.get(rule, 0)) for rule in rules}
    found["rate_limited"] = window.growth(lambda one: one.stats.get("rate_limited", 0))
    for name in BELOW_RULES:
        found[name] = window.growth(lambda one, name=name: one.stats.get("gossip", {}).get(name, 0))
    for reason in QUOTAS:
        found[f"over quota of {reason}"] = window.growth(
            lambda one, reason=reason: one.metrics.get(DROPPED % reason, 0.0)
        )
    return {rule: int(num) for rule, num in found.items() if num}


def table(rows: Sequence[Row]) -> str:
    """The rows as text, with what was tried below the figures of each."""
    head = (
        "attack",
        "sent",
        "held",
        "accepted",
        "stored",
        "used",
        "banned",
        "CPU s: daemon",
        "network",
        "scorer",
    )
    head += ("rounds", "own reward", "restarts", "lost", "its CPU s")
    lines = [_line(head), _line(("",) * 7 + ("of victims (quiet)",) + ("(quiet)",) * 4)]
    for row in rows:
        cpu = [f"{row.cpu_s[part]:.1f} ({row.quiet_cpu_s[part]:.1f})" for part in PARTS]
        rounds, reward = (
            f"{row.rounds} ({row.quiet_rounds:.0f})",
            f"{_told(row.reward)} ({_told(row.quiet_reward)})",
        )
        reached = (row.name, row.sent, row.held, row.accepted, row.stored, row.used, row.banned)
        lines.append(
            _line((*reached, *cpu, rounds, reward, row.restarts, row.lost, f"{row.attacker_cpu_s:.1f}"))
        )
        worst = ", ".join(f"{rule} {num}" for rule, num in Counter(row.judged).most_common(5))
        lines.append(f"  {row.text}" + (f"; not let in: {worst}" if worst else ""))
    return "\n".join([*lines, QUIET])


QUIET = (
    "(quiet): as much quiet time of the same swarm, for the reward its windows before and after; not an undisturbed control,"
    " with which only the held-out rewards are compared"
)
_WIDTHS = (18, 7, 6, 9, 8, 6, 8, 19, 12, 12, 12, 16, 9, 5, 10)


def _line(cells: Sequence[object]) -> str:
    """The first cell on the left of its column, the others on the right of theirs."""
    first, *others = zip(cells, _WIDTHS, strict=False)
    return f"{first[0]:<{first[1]}}" + "".join(f"{cell!s:>{width}}" for cell, width in others)
