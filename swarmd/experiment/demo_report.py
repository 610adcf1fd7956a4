"""What a run of several nodes came to: figures per node, a verdict, a JSON file and a picture."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from swarmd.atomic import write_atomically

# "Clearly risen": the bars of the project's own acceptance.
RATIO_MIN = 5.0
STANDARD_ERRORS_MIN = 3.0


@dataclass(frozen=True)
class NodeResult:
    """One node's run. Rewards are means over fresh own completions; held-out figures are mean and standard error."""

    name: str
    peer_id: str
    rounds: int
    reward_first_fifth: float
    reward_last_fifth: float
    shared: int
    received: int
    used_by_author: dict[str, int]
    rejected: int
    held_out_before: tuple[float, float, int] | None
    held_out_after: tuple[float, float, int] | None
    rewards: list[float]

    @property
    def ratio(self) -> float:
        """Last fifth over first fifth; a first fifth without any reward counts as half a rewarded completion in it."""
        floor = 0.5 / (32 * max(1, self.rounds // 5))
        return self.reward_last_fifth / max(self.reward_first_fifth, floor)

    @property
    def held_out_gain(self) -> float | None:
        """Rise on the held-out questions, in standard errors of the difference."""
        if self.held_out_before is None or self.held_out_after is None:
            return None
        (before, before_se, _), (after, after_se, _) = self.held_out_before, self.held_out_after
        return float((after - before) / max((before_se**2 + after_se**2) ** 0.5, 1e-9))


def node_result(
    name: str, peer_id: str, rounds: list[dict[str, Any]], evaluations: list[dict[str, Any]], rejected: int
) -> NodeResult:
    """Figures from a node's round records and evaluations."""
    rewards = [record["reward_own"] for record in rounds]
    fifth = max(1, len(rewards) // 5)
    last = rounds[-1] if rounds else {}
    held_out = [(e["mean"], e["standard_error"], e["num_completions"]) for e in evaluations]
    used: dict[str, int] = {}
    for record in rounds:
        for author, num in record.get("used_by_author", {}).items():
            used[author] = used.get(author, 0) + num
    return NodeResult(
        name=name,
        peer_id=peer_id,
        rounds=len(rounds),
        reward_first_fifth=sum(rewards[:fifth]) / fifth if rewards else 0.0,
        reward_last_fifth=sum(rewards[-fifth:]) / fifth if rewards else 0.0,
        shared=last.get("num_shared", 0),
        received=last.get("num_received", 0),
        used_by_author=used,
        rejected=rejected,
        held_out_before=held_out[0] if held_out else None,
        held_out_after=held_out[-1] if len(held_out) > 1 else None,
        rewards=rewards,
    )


def shortcomings(results: list[NodeResult]) -> list[str]:
    """Why the run did not show what it should; empty when it did."""
    missing = []
    for result in results:
        others = {other.peer_id for other in results} - {result.peer_id}
        if result.ratio < RATIO_MIN:
            missing.append(f"{result.name}: reward rose {result.ratio:.1f} times, not {RATIO_MIN:.0f}")
        if unused := others - set(result.used_by_author):
            missing.append(f"{result.name}: used no rollout of {len(unused)} of {len(others)} other nodes")
        if result.rejected:
            missing.append(f"{result.name}: {result.rejected} messages were rejected")
        if result.held_out_gain is None or result.held_out_gain < STANDARD_ERRORS_MIN:
            gain = (
                "was not measured"
                if result.held_out_gain is None
                else f"rose {result.held_out_gain:.1f} standard errors"
            )
            missing.append(f"{result.name}: held-out reward {gain}, not {STANDARD_ERRORS_MIN:.0f}")
    return missing


def table(results: list[NodeResult]) -> str:
    """The closing table."""
    lines = [
        "node     rounds  reward first -> last fifth   times   shared  received  used (of each)   held-out before -> after",
    ]
    for r in results:
        before, after = r.held_out_before, r.held_out_after
        held_out = (
            f"{before[0]:.3f} -> {after[0]:.3f} (+{r.held_out_gain:.1f} se)" if before and after else "-"
        )
        used = sum(r.used_by_author.values())
        each = "/".join(str(num) for num in r.used_by_author.values())
        lines.append(
            f"{r.name:<8} {r.rounds:>6}  {r.reward_first_fifth:>12.4f} -> {r.reward_last_fifth:<10.4f} {r.ratio:>7.1f}"
            f"  {r.shared:>6}  {r.received:>8}  {used:>5} ({each})   {held_out}"
        )
    return "\n".join(lines)


def write_report(path: Path, results: list[NodeResult], **facts: Any) -> None:
    """`report.json`: every figure of the table, the rewards of every round, and the verdict."""
    missing = shortcomings(results)
    nodes = [
        asdict(r) | {"ratio": r.ratio, "held_out_gain_standard_errors": r.held_out_gain} for r in results
    ]
    document = {"learned": not missing, "shortcomings": missing, **facts, "nodes": nodes}
    write_atomically(path, json.dumps(document, indent=2).encode() + b"\n")


def plot_rewards(path: Path, results: list[NodeResult], *, window: int = 5) -> None:
    """Reward of fresh own completions by round, one line a node, smoothed over `window` rounds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=120)
    for result in results:
        smooth = [
            sum(part) / len(part)
            for part in (result.rewards[max(0, i - window + 1) : i + 1] for i in range(len(result.rewards)))
        ]
        axes.plot(range(1, len(smooth) + 1), smooth, label=result.name, linewidth=1.4)
    axes.set_xlabel("round")
    axes.set_ylabel(f"mean reward of own completions ({window}-round mean)")
    axes.set_title("Nodes that learn from each other")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
