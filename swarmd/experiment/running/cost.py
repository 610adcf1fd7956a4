"""What cells cost: tokens, floating-point operations, seconds, and how far one is with them.

The formula, of one node's round with I own and J external rollouts of L completions, T tokens each, after prompts of P tokens:

    generated tokens = I x L x T              (times the batches that dynamic sampling may take)
    trained tokens   = (I + J) x L x T
    seconds          = max(T / sequence rate, generated / generate rate) + (trained + (I + J) x P) / update rate + the rest
    FLOPs            = 2 x parameters x (generated + I x P) + 6 x parameters x (trained + (I + J) x P)

An evaluation of Q questions with C completions generates Q x C x T. Without a device for each node, their times add up.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, replace

from swarmd.experiment.cell import Cell, NodeSpec, config_of, rounds_of
from swarmd.experiment.presets import Preset, Rates


@dataclass(frozen=True)
class Cost:
    """Of one cell, all its nodes together; `device_seconds` is one device's time, summed over the devices."""

    generated_tokens: float = 0.0
    trained_tokens: float = 0.0
    evaluation_tokens: float = 0.0
    flops: float = 0.0
    seconds: float = 0.0
    device_seconds: float = 0.0


def total(costs: Iterable[Cost]) -> Cost:
    """The costs of several cells, or nodes, one after the other."""
    return Cost(*map(sum, zip(*map(astuple, costs), strict=True)))


def cell_cost(cell: Cell, preset: Preset) -> Cost:
    """What a cell is expected to cost. Dynamic sampling is counted at its limit, nodes that join late at the rounds they do."""
    costs = [_node_cost(cell, node, preset) for node in cell.nodes]
    in_turn = total(costs)
    seconds = max(cost.seconds for cost in costs) if preset.one_device_each else in_turn.seconds
    seconds += preset.rates.start_s
    num_devices = len(costs) if preset.one_device_each else 1
    return replace(in_turn, seconds=seconds, device_seconds=seconds * num_devices)


def _node_cost(cell: Cell, node: NodeSpec, preset: Preset) -> Cost:
    config, rates = config_of(cell, node), preset.rates
    experience, evaluate = config.experience, config.evaluate
    rounds = rounds_of(cell, node)
    length = min(rates.completion_tokens, config.policy.tokens_max)
    num_own = experience.num_local * experience.dynamic_sampling
    num_trained = experience.num_local + experience.num_external
    generated = num_own * experience.completions * length
    trained = num_trained * experience.completions * length
    prompts = num_trained * rates.prompt_tokens
    round_s = (
        _generation_s(generated, length, rates) + (trained + prompts) / rates.update_tokens_s + rates.round_s
    )
    num_evaluations = 0
    if evaluate.num_questions:  # at the start, every so many rounds, and at the end
        num_evaluations = 1 + (math.ceil(rounds / evaluate.every_rounds) if evaluate.every_rounds else 1)
    evaluated = evaluate.num_questions * evaluate.completions * length
    seconds = rounds * round_s + num_evaluations * _generation_s(evaluated, length, rates)
    flops = 2 * (generated + num_own * rates.prompt_tokens) + 6 * (trained + prompts)
    evaluation_flops = 2 * (evaluated + evaluate.num_questions * rates.prompt_tokens)
    return Cost(
        generated_tokens=rounds * generated,
        trained_tokens=rounds * trained,
        evaluation_tokens=num_evaluations * evaluated,
        flops=rates.parameters * (rounds * flops + num_evaluations * evaluation_flops),
        seconds=seconds,
    )


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
            self._by_label[cell.label] = cell_cost(cell, self.preset).seconds
        return self._by_label[cell.label]


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h` or `2.1 days`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.1f} days"


def amount(number: float) -> str:
    """`950`, `1.3 M`, `42 T`: three digits at most."""
    for limit, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {unit}"
    return f"{number:.0f}"
