"""One row per attack: what it reached and what it cost, against quiet time of the same swarm. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmd.protocol.rules import VERDICT_OF, Verdict
from tests.attack.looks import PARTS
from tests.attack.window import Window

# What gossip itself turned away before any rule, of its counters.
BELOW_RULES = (
    "low_score",
    "bad_signature",
    "bad_sender_record",
    "misframed_rpc",
    "too_many_subscriptions",
    "equivocation",
)


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
        cpu_s: CPU seconds by part; quiet_cpu_s the same in as much quiet time.
        rounds, quiet_rounds: rounds done, and those that quiet time of this length would have had.
        lost: rounds or own batches that failed.
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
    cpu_s: Mapping[str, float]
    quiet_cpu_s: Mapping[str, float]
    rounds: int
    quiet_rounds: float
    restarts: int
    lost: int
    attacker_cpu_s: float


def row_of(name: str, text: str, window: Window, quiet: Sequence[Window], hostile: frozenset[str]) -> Row:
    """The figures of a window in which the peers `hostile` were at it."""
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
        cpu_s=window.cpu_s(),
        quiet_cpu_s={part: share * sum(one[part] for one in calm) for part in PARTS},
        rounds=int(window.num_rounds),
        quiet_rounds=share * sum(one.num_rounds for one in quiet),
        restarts=int(window.growth(lambda one: one.restarts)),
        lost=int(window.growth(lambda one: lost(one.metrics))),
        attacker_cpu_s=window.attacker_cpu_s,
    )


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
    return {rule: int(num) for rule, num in found.items() if num}


def table(rows: Sequence[Row]) -> str:
    """The rows as text, with what was tried above the figures of each."""
    lines = [
        f"{'attack':<18}{'sent':>7}{'held':>6}{'accepted':>9}{'stored':>7}{'used':>6}"
        f"  {'CPU s of victims (quiet): daemon':>33}{'network':>14}{'scorer':>14}"
        f"{'rounds (quiet)':>16}{'restarts':>9}{'lost':>5}{'its CPU s':>10}"
    ]
    for row in rows:
        parts = "".join(
            f"{f'{row.cpu_s[part]:.1f} ({row.quiet_cpu_s[part]:.1f})':>{width}}"
            for part, width in zip(PARTS, (35, 14, 14), strict=True)
        )
        lines.append(
            f"{row.name:<18}{row.sent:>7}{row.held:>6}{row.accepted:>9}{row.stored:>7}{row.used:>6}{parts}"
            f"{f'{row.rounds} ({row.quiet_rounds:.0f})':>16}{row.restarts:>9}{row.lost:>5}{row.attacker_cpu_s:>10.1f}"
        )
        worst = ", ".join(f"{rule} {num}" for rule, num in Counter(row.judged).most_common(5))
        lines.append(f"  {row.text}" + (f"; not let in: {worst}" if worst else ""))
    return "\n".join(lines)
