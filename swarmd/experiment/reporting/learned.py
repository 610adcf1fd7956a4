"""Whether each node of a swarm learned, and from every other: the bars of the demo."""

from dataclasses import dataclass

import numpy as np

from swarmd.experiment.cell import identity_seed
from swarmd.experiment.reporting.document import Table, table_of
from swarmd.experiment.reporting.results import FinishedCell, FinishedNode
from swarmd.protocol.signing import Identity

# "Clearly risen": the bars of the project's own acceptance.
RATIO_MIN = 5.0
STANDARD_ERRORS_MIN = 3.0
# Of a node with the default settings: 4 questions, 8 completions each.
_COMPLETIONS_A_ROUND = 32


@dataclass(frozen=True)
class Learned:
    """What one node's run came to. Rewards are means over its own fresh completions."""

    node: FinishedNode
    first_fifth: float
    last_fifth: float
    held_out_before: float
    held_out_after: float
    gain_errors: float | None

    @classmethod
    def of(cls, node: FinishedNode) -> "Learned":
        rewards_R, tests = node.columns["reward_own"], node.evaluations
        fifth = max(1, len(rewards_R) // 5)
        before, after, gain = np.nan, np.nan, None
        if tests is not None and len(tests.mean_E) > 1:
            before, after = float(tests.mean_E[0]), float(tests.mean_E[-1])
            gain = (after - before) / max(float(np.hypot(*tests.standard_error_E[[0, -1]])), 1e-9)
        return cls(
            node, float(rewards_R[:fifth].mean()), float(rewards_R[-fifth:].mean()), before, after, gain
        )

    @property
    def ratio(self) -> float:
        """Last fifth over first; a first fifth without any reward counts as half a rewarded completion in it."""
        fifth = max(1, len(self.node.round_R) // 5)
        return self.last_fifth / max(self.first_fifth, 0.5 / (_COMPLETIONS_A_ROUND * fifth))

    def shortcomings(self, others: set[str]) -> list[str]:
        """Which bars it missed, when the other nodes have these peer ids."""
        missing = []
        if not self.ratio >= RATIO_MIN:
            missing.append(f"reward rose {self.ratio:.1f} times, not {RATIO_MIN:.0f}")
        if unused := others - self.node.used_by_author.keys():
            missing.append(f"used no rollout of {len(unused)} of {len(others)} other nodes")
        if self.node.num_rejected:
            missing.append(f"{self.node.num_rejected} messages were rejected")
        if self.gain_errors is None:
            missing.append("held-out reward was not measured twice")
        elif not self.gain_errors >= STANDARD_ERRORS_MIN:
            missing.append(
                f"held-out reward rose {self.gain_errors:.1f} standard errors, not {STANDARD_ERRORS_MIN:.0f}"
            )
        return [f"{self.node.spec.name}: {text}" for text in missing]


def shortcomings(cell: FinishedCell) -> list[str]:
    """Why a cell of real nodes did not show that each learned from every other; empty when it did."""
    names = [
        Identity.from_seed(identity_seed(cell.spec.seed, number)).peer_id for number in range(len(cell.nodes))
    ]
    return [
        text
        for name, node in zip(names, cell.nodes, strict=True)
        for text in Learned.of(node).shortcomings({*names} - {name})
    ]


def table(cell: FinishedCell) -> Table:
    rows = []
    for node in cell.nodes:
        found = Learned.of(node)
        rows.append({
            "node": node.spec.name,
            "rounds": str(len(node.round_R)),
            "reward, first fifth": f"{found.first_fifth:.4f}",
            "last fifth": f"{found.last_fifth:.4f}",
            "times": f"{found.ratio:.1f}",
            "used of each other": " ".join(map(str, node.used_by_author.values())) or "0",
            "held-out before": f"{found.held_out_before:.3f}",
            "after": f"{found.held_out_after:.3f}",
            "standard errors": "–" if found.gain_errors is None else f"{found.gain_errors:.1f}",
        })  # fmt: skip
    return table_of(rows)
