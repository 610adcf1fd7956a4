"""Presets: how large an experiment is, what its nodes run, and what a round of them costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from swarmd.experiment.arms import GROUPS
from swarmd.experiment.cell import Runner
from swarmd.experiment.guards import NO_GUARDS


@dataclass(frozen=True)
class Rates:
    """What time a node needs, in seconds of the machine that the preset is meant for; see `cost.py` for the formula.

    Attributes:
        prompt_tokens, completion_tokens: mean lengths.
        generate_tokens_s: completion tokens generated a second, by as many sequences at once as a round has.
        sequence_tokens_s: the most that one sequence grows a second.
        update_tokens_s: tokens, prompts included, that an update takes a second.
        round_s: what each round costs besides: scoring, the optimizer's step, weights handed over.
        start_s: from the start of a cell to its first round.
        one_device_each: each real node has an accelerator of its own, so that nodes run side by side.
    """

    prompt_tokens: float
    completion_tokens: float
    generate_tokens_s: float
    sequence_tokens_s: float
    update_tokens_s: float
    round_s: float
    start_s: float
    one_device_each: bool = False


@dataclass(frozen=True)
class Preset:
    """One size of experiment, whose parts the command line can change one by one.

    Attributes:
        arms, seeds: what is compared unless the command line says otherwise.
        runner: `simulation`, all nodes in one process in virtual time, or `processes`, real nodes over libp2p.
        settings: of every node in every arm, the swarm's name among them.
        choices: what is other than in the paper, or not stated there, and what was taken.
        must_learn: the run fails unless every node of its one cell learned, and from every other.
    """

    name: str
    text: str
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    num_nodes: int
    rounds: int
    runner: Runner
    model: str
    settings: Mapping[str, str]
    rates: Rates
    choices: tuple[tuple[str, str], ...]
    must_learn: bool = False

    @property
    def manifest(self) -> str:
        """The name of the swarm's manifest, or its file."""
        return self.settings["swarm.name"]

    @property
    def one_device_each(self) -> bool:
        """Whether nodes run side by side, each on an accelerator of its own."""
        return self.rates.one_device_each and self.runner == "processes"


_TINY = {
    "swarm.name": "tiny",
    "policy.device": "cpu",
    "policy.threads": "1",
    "evaluate.num_questions": "128",
    "evaluate.completions": "1",
}
# Measured on a core that others use: 4 nodes, 40 rounds, mixes 8/0 to 2/6, from the seconds in their records. Half on a free core.
_TINY_RATES = Rates(
    prompt_tokens=12,
    completion_tokens=5,
    generate_tokens_s=5000,
    sequence_tokens_s=120,
    update_tokens_s=10_000,
    round_s=0.03,
    start_s=15,
)
# Not measured: a card of the class of an A100. A step of a small model is bound by launches, not by arithmetic: 5 ms, for one
# sequence as for a few hundred. An update reaches a third of 300 TFLOP/s at 6 FLOPs a parameter and token. A round's rest is
# scoring, Adam's step over half a billion parameters and a hand-over of weights, about a second.
_PAPER_RATES = Rates(
    prompt_tokens=300,
    completion_tokens=256,
    generate_tokens_s=50_000,
    sequence_tokens_s=200,
    update_tokens_s=30_000,
    round_s=1.5,
    start_s=180,
    one_device_each=True,
)
_CHOICES = (
    (
        "pool of externals",
        "what arrived within an hour and was not used yet (`experience.age_s_max`, `experience.uses_max`); the paper draws from the"
        " current round",
    ),
    ("gradient norm", "clipped at 1.0 (`update.grad_norm_max`); the authors' code does not clip"),
    (
        "importance weights",
        "own tokens, truncated, where vLLM or a process apart generates (`update.mismatch = auto`); the authors' code has none",
    ),
    ("guards against strangers", "off; a node started by hand has them on"),
)
_DEMO_CHOICES = (
    (
        "model and questions",
        "0.6 million parameters and five short tasks, not 0.5 billion and nine datasets",
    ),
    ("learning rate", "3e-4 unless an arm names another: ratios depend on it"),
)
_PAPER_CHOICES = (
    ("variant of the model", "Qwen/Qwen2.5-0.5B-Instruct"),
    ("temperature", "1.0, as in the authors' code"),
    ("token limit", "256 new tokens, as in the authors' code"),
    ("loss normalisation", "mean over all tokens of the round (`dapo`), as in the authors' code"),
    (
        "learning rate",
        "1e-6. The text says 1e-3, the code 1e-5 or 1e-6; sweep it before comparing arms: --set update.learning_rate=…",
    ),
    ("optimizer steps", "one a round over the whole training set, so that the ratio is 1 and the clip inert"),
    ("advantages", "(reward - mean) / (standard deviation + 1e-4)"),
    (
        "dataset parameters",
        "upstream's defaults, but `bf` at difficulty 1: at 3 one question takes 2.8 s to build",
    ),
    ("rewards", "upstream's; a constant earns 0.83 of propositional_logic (docs/rewards-for-nothing.md)"),
    ("prompt", "the manifest's template, answer in <answer> tags, no reward for the format"),
    ("seeds", "0, 1 and 2; each seed gives every node an identity, hence questions, of its own"),
    ("held-out evaluation", "256 questions with one completion each, every 100 rounds"),
    *_CHOICES,
)

_SMOKE = Preset(
    name="smoke",
    text="does it work: four arms, one seed, minutes on two cores",
    arms=GROUPS["paper"],
    seeds=(0,),
    num_nodes=4,
    rounds=40,
    runner="simulation",
    model="tiny",
    settings={**_TINY, **NO_GUARDS, "evaluate.every_rounds": "10"},
    rates=_TINY_RATES,
    choices=(*_DEMO_CHOICES, *_CHOICES),
)
_ALL = (
    replace(
        _SMOKE,
        name="demo",
        text="do nodes learn from each other: four real nodes, a minute or two on two cores",
        arms=("4/4",),
        rounds=140,
        runner="processes",
        settings={**_TINY, "evaluate.completions": "4", "evaluate.every_rounds": "0"},
        choices=_DEMO_CHOICES,
        must_learn=True,
    ),
    _SMOKE,
    replace(
        _SMOKE,
        name="laptop",
        text="the paper's arms and their controls, three seeds, an evening on a laptop",
        arms=GROUPS["paper"] + GROUPS["controls"],
        seeds=(0, 1, 2),
        num_nodes=8,
        rounds=100,
        settings={**_SMOKE.settings, "evaluate.every_rounds": "5"},
    ),
    Preset(
        name="paper",
        text="the published setting: eight GPUs, days",
        arms=GROUPS["paper"] + GROUPS["controls"],
        seeds=(0, 1, 2),
        num_nodes=8,
        rounds=2000,
        runner="processes",
        model="Qwen2.5-0.5B",
        settings={
            **NO_GUARDS,
            "swarm.name": "reasoning-paper",
            "policy.device": "cuda",
            "policy.placement": "shared",
            "policy.temperature": "1.0",
            "policy.tokens_max": "256",
            "experience.completions": "8",
            "update.learning_rate": "1e-6",
            "update.clip_low": "0.2",
            "update.clip_high": "0.28",
            "update.aggregation": "dapo",
            "update.advantage_scale": "std",
            "update.weight_decay": "0",
            "evaluate.num_questions": "256",
            "evaluate.completions": "1",
            "evaluate.every_rounds": "100",
            # a checkpoint of half a billion parameters with Adam's moments is 6 GB
            "checkpoint.every_rounds": "50",
            "checkpoint.keep": "1",
        },
        rates=_PAPER_RATES,
        choices=_PAPER_CHOICES,
    ),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}
