"""Folders of cells whose effects are known, because they were put there: for tests of the report."""

import json
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATASETS = ("gcd", "leg_counting", "spell_backward", "chain_sum")
# Mean reward of a node at a share of its rounds, without noise.
Course = Callable[[float], float]


def rising(factor: float = 1.0, *, start: float = 0.01, end: float = 0.2) -> Course:
    """A straight rise; its area is `factor` times that of factor 1."""
    return lambda share: factor * (start + (end - start) * share)


def falling_back(drop: float) -> Course:
    """Rises to 0.3 at the middle, falls by `drop` in the next quarter, and stays."""
    return lambda share: 0.3 * min(1.0, 2 * share) - drop * min(1.0, max(0.0, 4 * (share - 0.5)))


@dataclass
class Synthetic:
    """What a cell of one arm does. Noise: the standard deviation of a logarithm, of a seed (in all arms) and of an arm."""

    course: Course = field(default_factory=rising)
    noise: float = 0.05
    seed_noise: float = 0.3
    generated_tokens: float = 4000.0
    trained_tokens: float = 6000.0
    seconds: float = 2.0
    foreign: float = 1.0  # factor on datasets that a node does not generate
    shortfall: float = 0.0  # of four externals a round
    late_speed: float = 1.0  # how much faster a late joiner goes through the course
    used_of: tuple[str, ...] = ()  # authors of whom a rollout is used in each round


def write_experiment(
    directory: Path,
    arms: dict[str, Synthetic],
    *,
    seeds: Iterable[int] = range(5),
    scenario: str = "alike",
    num_nodes: int = 3,
    num_rounds: int = 40,
    evaluate_every: int = 10,
    status: str = "done",
) -> Path:
    """A folder as the runner leaves it; may be called again for another scenario. Returns `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    facts = {
        "preset": "laptop", "runner": "simulation", "created": "2026-11-21T00:00:00Z",
        "command": ["swarmd", "experiment", "run", "--preset", "laptop"], "versions": {"swarmd": "0.0", "numpy": "2"},
        "machine": {"cpu_count": 2, "platform": "test"}, "manifest": {"name": "test", "digest": "ab" * 32}, "commit": None,
    }  # fmt: skip
    (directory / "experiment.json").write_text(json.dumps(facts))
    for arm, what in arms.items():
        for seed in seeds:
            slug = arm.replace("/", "-").replace(" ", "_")
            place = directory / "cells" / scenario / slug / f"seed-{seed}"
            _write_cell(place, arm, seed, what, scenario, num_nodes, num_rounds, evaluate_every, status)
    return directory


def cell_of(directory: Path, arm: str, seed: int = 0, scenario: str = "alike") -> Path:
    """Where a cell lies."""
    return directory / "cells" / scenario / arm.replace("/", "-").replace(" ", "_") / f"seed-{seed}"


def _write_cell(
    place: Path, arm: str, seed: int, what: Synthetic, scenario: str, num_nodes: int, num_rounds: int, every: int, status: str
) -> None:  # fmt: skip
    common = math.exp(random.Random(f"{seed}").gauss(0, what.seed_noise))
    level = common * math.exp(random.Random(f"{seed} {arm} {scenario}").gauss(0, what.noise))
    nodes = []
    for k in range(num_nodes):
        late = scenario == "late" and k == num_nodes - 1
        datasets = [DATASETS[k % len(DATASETS)]] if scenario == "specialised" else []
        joins = num_rounds // 2 if late else 0
        nodes.append(
            {"name": f"node {k}", "model": "tiny", "speed": 1.0, "settings": {}, "joins_at_round": joins, "datasets": datasets}
        )  # fmt: skip
        rounds = num_rounds - joins
        pace = what.late_speed if late else 1.0
        rng = random.Random(f"{seed} {arm} {k}")
        node = place / f"node-{k}"
        node.mkdir(parents=True, exist_ok=True)
        course = _paced(what.course, pace)
        level_k = level * math.exp(rng.gauss(0, what.noise))
        records = [_record(n, level_k * course((n - 0.5) / rounds), what, rng) for n in range(1, rounds + 1)]
        (node / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        evaluations = [
            _evaluation(n, level_k * course(n / rounds), what, datasets) for n in range(0, rounds + 1, every)
        ]
        (node / "evaluations.jsonl").write_text("".join(json.dumps(e) + "\n" for e in evaluations))
    cell = {
        "scenario": scenario, "arm": arm, "settings": {"mix.arm": arm, "update.learning_rate": 3e-4}, "seed": seed,
        "nodes": nodes, "rounds": num_rounds, "status": status, "num_rounds_done": num_rounds, "seconds": 12.5,
    }  # fmt: skip
    (place / "cell.json").write_text(json.dumps(cell))


def _paced(course: Course, pace: float) -> Course:
    return lambda share: course(min(1.0, pace * share))


def _record(number: int, reward: float, what: Synthetic, rng: random.Random) -> dict[str, Any]:
    return {
        "round": number, "time_ms": number, "reward_own": reward, "reward_training": min(1.0, reward * 1.5),
        "num_generated": 4, "num_generated_informative": rng.randrange(4), "num_generated_tokens": what.generated_tokens,
        "num_tokens_local": what.trained_tokens / 2, "num_tokens_external": what.trained_tokens / 2, "num_own": 4,
        "num_own_informative": 2, "num_external": 4 - what.shortfall, "shortfall": what.shortfall,
        "num_pool": 20, "num_pool_informative": 10, "used_by_author": dict.fromkeys(what.used_of, 1), "rejected": 0,
        "external_age_s": None if number == 1 else 3.0, "seconds_generate": what.seconds / 2, "seconds_update": what.seconds / 2,
    }  # fmt: skip


def _evaluation(number: int, reward: float, what: Synthetic, own: list[str]) -> dict[str, Any]:
    by_dataset = {
        name: [reward * (what.foreign if own and name not in own else 1.0), 16] for name in DATASETS
    }
    mean = sum(value for value, _ in by_dataset.values()) / len(by_dataset)
    return {
        "round": number, "time_ms": number, "mean": mean, "standard_error": 0.01, "num_questions": 64, "num_completions": 256,
        "by_dataset": by_dataset,
    }  # fmt: skip
