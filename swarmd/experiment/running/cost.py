"""How long cells take.

The formula, of one node's round with I own and J external rollouts of L completions, T tokens each, after prompts of P tokens:

    generated tokens = I x L x T              (times the batches that dynamic sampling may take)
    trained tokens   = (I + J) x (L x T + P)
    seconds          = max(T / sequence rate, generated / generate rate) + trained / update rate + the rest

An evaluation of Q questions with C completions generates Q x C x T. Without a device for each node, their times add up.
"""

import math
import statistics
from dataclasses import dataclass, field

from swarmd.experiment.cell import Cell, NodeSpec, config_of, rounds_of
from swarmd.experiment.presets import Preset, Rates


def cell_s(cell: Cell, preset: Preset) -> float:
    """Expected seconds. Dynamic sampling is counted at its limit, nodes that join late at the rounds they do."""
    nodes = [_node_s(cell, node, preset.rates) for node in cell.nodes]
    return preset.rates.start_s + (max(nodes) if preset.one_device_each else sum(nodes))


def _node_s(cell: Cell, node: NodeSpec, rates: Rates) -> float:
    config, rounds = config_of(cell, node), rounds_of(cell, node)
    experience, evaluate = config.experience, config.evaluate
    length = min(rates.completion_tokens, config.policy.tokens_max)
    generated = experience.num_local * experience.dynamic_sampling * experience.completions * length
    trained = (experience.num_local + experience.num_external) * (
        experience.completions * length + rates.prompt_tokens
    )
    round_s = _generation_s(generated, length, rates) + trained / rates.update_tokens_s + rates.round_s
    num_evaluations = 0
    if evaluate.num_questions:  # at the start, every so many rounds, and at the end
        num_evaluations = 1 + (math.ceil(rounds / evaluate.every_rounds) if evaluate.every_rounds else 1)
    evaluated = evaluate.num_questions * evaluate.completions * length
    return rounds * round_s + num_evaluations * _generation_s(evaluated, length, rates)


def _generation_s(tokens: float, length: float, rates: Rates) -> float:
    return max(length / rates.sequence_tokens_s, tokens / rates.generate_tokens_s) if tokens else 0.0


@dataclass
class Pace:
    """How long cells take here: the preset's expectation, corrected by what finished cells took."""

    preset: Preset
    ratios: list[float] = field(default_factory=list)
    _by_label: dict[str, float] = field(default_factory=dict)

    def finished(self, cell: Cell, seconds: float) -> None:
        self.ratios.append(seconds / self._preset_s(cell))

    def expected_s(self, cell: Cell) -> float:
        """Seconds that a cell will take here."""
        return (statistics.median(self.ratios) if self.ratios else 1.0) * self._preset_s(cell)

    def _preset_s(self, cell: Cell) -> float:
        """Computed once a cell: it reads the settings of every node, and the display asks several times a second."""
        if cell.label not in self._by_label:
            self._by_label[cell.label] = cell_s(cell, self.preset)
        return self._by_label[cell.label]


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h` or `2.1 days`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.1f} days"
