"""A simulated swarm and one of real processes are two draws from one distribution: same questions, same code, other timing."""

import json
import math
import statistics

import pytest

from swarmd.experiment.cell import Cell, NodeSpec
from swarmd.experiment.run_cell import run_cell

SEEDS = range(3)
ROUNDS = 30
# So fast that thirty rounds show the whole rise; slower, both would sit at the start and agree about nothing.
SETTINGS = {
    "policy.device": "cpu",
    "policy.threads": 1,
    "update.learning_rate": 1e-3,
    "experience.mix": "4/4",
    "evaluate.num_questions": 128,
    "evaluate.completions": 2,
    "evaluate.every_rounds": 0,
}


def run(runner: str, seed: int, directory) -> dict[str, float]:
    nodes = tuple(NodeSpec(f"node-{number}") for number in range(3))
    cell = Cell("alike", "4/4", SETTINGS, seed, nodes, ROUNDS, runner=runner)
    directory = directory / "cells" / "alike" / runner / f"seed-{seed}"
    cell.save(directory)
    run_cell(directory, deadline_s=None, on_progress=lambda done, rounds: None)
    rounds, evaluations = (
        [
            [json.loads(line) for line in (directory / node.name / f"{name}.jsonl").open()]
            for node in cell.nodes
        ]
        for name in ("rounds", "evaluations")
    )
    assert [len(of_node) for of_node in rounds] == [ROUNDS] * 3
    return {
        "first": statistics.mean(of_node[0]["reward_own"] for of_node in rounds),
        "fresh": statistics.mean(r["reward_own"] for of_node in rounds for r in of_node),
        "last third": statistics.mean(r["reward_own"] for of_node in rounds for r in of_node[-10:]),
        "held out": statistics.mean(of_node[-1]["mean"] for of_node in evaluations),
        "external": statistics.mean(r["num_external"] for of_node in rounds for r in of_node),
    }


@pytest.mark.slow
def test_simulated_and_real_swarms_agree(tmp_path):
    simulated = [run("simulation", seed, tmp_path) for seed in SEEDS]
    real = [run("processes", seed, tmp_path) for seed in SEEDS]
    assert [of_seed["first"] for of_seed in simulated] == [of_seed["first"] for of_seed in real], (
        "before anything was learned, the same identity asks and answers the same"
    )
    for measure in ("fresh", "last third", "held out", "external"):
        ours, theirs = ([of_seed[measure] for of_seed in kind] for kind in (simulated, real))
        error = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / len(SEEDS))
        difference = statistics.mean(ours) - statistics.mean(theirs)
        print(f"{measure}: simulated {ours}, real {theirs}")
        # 4.6 is the 1 % point of Student's distribution with four degrees of freedom, two-sided
        assert abs(difference) < 4.6 * error + 0.02, f"{measure}: {ours} and {theirs}"
    assert statistics.mean(of_seed["last third"] for of_seed in simulated) > 0.1, (
        "there was nothing to agree about"
    )
