"""A swarm in one process: the same seeds give the same bytes, and speed, lateness and the shared scorer do what they say."""

import json
import time
from collections import Counter
from dataclasses import replace

import pytest

from swarmd.clients.policy import Saved, Updated
from swarmd.clients.scorer import Address, Questions, ScoreItem, ScorerInfo, ScorerOps, Scores
from swarmd.clients.update_stats import UpdateStats
from swarmd.errors import ConfigError, LocalError, OutOfMemory, StateError, SwarmdError
from swarmd.experiment.cell import Cell, NodeSpec, Stopped, experiment_of
from swarmd.experiment.run_cell import run_cell
from swarmd.experiment.scenarios import SCENARIOS, nodes_of
from swarmd.experiment.swarms.simulation import EPOCH_MS
from swarmd.experiment.swarms.workers import InProcess, SharedScorer
from swarmd.protocol.manifest import load_manifest
from tests.loops.fakes import FakePolicy, a_round

SETTINGS = {
    "experience.mix": "2/2",
    "evaluate.num_questions": 8,
    "evaluate.completions": 1,
    "evaluate.every_rounds": 2,
}


def cell(*nodes: NodeSpec, rounds: int = 3, seed: int = 0, **settings: object) -> Cell:
    nodes = nodes or (NodeSpec("node-0"), NodeSpec("node-1"))
    return Cell("alike", "2/2", {**SETTINGS, **settings}, seed, nodes, rounds)


def run(cell: Cell, directory, deadline_s: float | None = None) -> Cell:
    cell.save(directory)
    return run_cell(directory, deadline_s=deadline_s, on_progress=lambda done, rounds: None)


def records(directory, number: int, name: str = "rounds") -> list[dict]:
    return [json.loads(line) for line in (directory / f"node-{number}" / f"{name}.jsonl").open()]


def untimed(records: list[dict]) -> list[dict]:
    return [{key: value for key, value in r.items() if not key.startswith("seconds")} for r in records]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    directory = tmp_path_factory.mktemp("first") / "cell"
    return run(cell(), directory), directory


def test_the_same_seed_gives_the_same_run_to_the_last_bit(first, tmp_path):
    _, directory = first
    run(cell(), tmp_path)
    for number in (0, 1):
        for name in ("rounds", "evaluations"):
            assert untimed(records(directory, number, name)) == untimed(records(tmp_path, number, name))


def test_another_seed_gives_another_run(first, tmp_path):
    run(cell(seed=1), tmp_path)
    assert untimed(records(tmp_path, 0)) != untimed(records(first[1], 0))


def test_a_cell_says_how_it_went(first):
    done, directory = first
    assert (done.status, done.num_rounds_done) == ("done", 3)
    assert Cell.load(directory) == done
    assert done.spec == cell().spec
    assert [record["round"] for record in records(directory, 1)] == [1, 2, 3]
    assert [result["round"] for result in records(directory, 1, "evaluations")] == [0, 2, 3]
    assert {path.name for path in (directory / "node-0").iterdir()} == {"rounds.jsonl", "evaluations.jsonl"}


def test_a_record_has_all_keys(first):
    updated = Updated(1, Saved(seconds=0.1), UpdateStats())
    assert records(first[1], 0)[-1].keys() == a_round(updated=updated).to_record().keys()


def test_nodes_hear_of_each_other_and_of_nobody_else(first):
    _, directory = first
    last = records(directory, 0)[-1]
    assert last["num_shared"] == 6
    assert last["num_received"] == pytest.approx(6, abs=2)  # they do not march in step
    assert last["rejected"] == 0


def test_in_every_arm_of_a_seed_a_node_asks_the_same_questions(first, tmp_path):
    run(cell(**{"experience.mix": "2/0"}), tmp_path)
    mine, other = records(first[1], 0)[0], records(tmp_path, 0)[0]
    assert mine["reward_own"] == other["reward_own"]
    assert mine["num_generated_tokens"] == other["num_generated_tokens"]


def test_a_slow_node_does_fewer_rounds_and_a_late_one_starts_later(tmp_path):
    nodes = (NodeSpec("node-0"), NodeSpec("node-1", speed=0.5), NodeSpec("node-2", joins_at_round=2))
    run(cell(*nodes, rounds=4), tmp_path)
    rounds = [records(tmp_path, number) for number in range(3)]
    assert [len(of_node) for of_node in rounds] == [6, 3, 4]
    assert rounds[2][0]["time_ms"] >= EPOCH_MS + 2000
    assert rounds[2][0]["num_received"] <= 2 * 2, "what was said before it came is not repeated to it"


def test_one_that_stays_on_has_the_same_rounds_and_then_more(tmp_path):
    late = NodeSpec("node-1", joins_at_round=2)
    run(cell(NodeSpec("node-0"), late, rounds=3), tmp_path / "leaves")
    run(cell(NodeSpec("node-0"), replace(late, rounds_after=2), rounds=3), tmp_path / "stays")
    leaves, stays = records(tmp_path / "leaves", 1), records(tmp_path / "stays", 1)
    assert [len(leaves), len(stays)] == [3, 5]
    assert [r["reward_own"] for r in stays[:3]] == [r["reward_own"] for r in leaves]
    assert stays[-1]["num_received"] == stays[-2]["num_received"], "the others had ended"


def test_a_deadline_stops_a_cell_and_keeps_what_there_is(tmp_path):
    stopped = run(cell(), tmp_path, deadline_s=0.0)
    assert (stopped.status, stopped.num_rounds_done) == ("stopped", 0)


def test_a_setting_that_no_node_starts_with_fails_the_cell(tmp_path):
    with pytest.raises(ConfigError, match="mix"):
        run(cell(**{"experience.mix": "none"}), tmp_path)
    failed = Cell.load(tmp_path)
    assert failed.status == "failed"
    assert "mix" in failed.error


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nodes": [{"nam": 1}]}'])
def test_a_cell_that_cannot_be_read_is_a_clear_error(tmp_path, text):
    (tmp_path / "cell.json").write_text(text)
    with pytest.raises(StateError, match=r"cannot read .*cell\.json"):
        Cell.load(tmp_path)


def test_a_variant_that_was_not_built_is_a_clear_error(tmp_path):
    with pytest.raises(StateError, match="no model in"):
        run(cell(NodeSpec("node-0", "narrow")), tmp_path / "cells" / "mixed" / "2-2" / "seed-0")


def test_scenarios():
    for name in SCENARIOS:
        nodes = nodes_of(name, 8, "tiny", 100)
        assert [node.name for node in nodes] == [f"node-{number}" for number in range(8)]
    assert [node.speed for node in nodes_of("mixed", 8, "tiny", 100)].count(0.1) == 1
    num_tasks = len(load_manifest("tiny").datasets)
    asked = Counter(
        name for node in nodes_of("specialised", num_tasks, "tiny", 100) for name in node.datasets
    )
    assert set(asked.values()) == {2}
    assert [node.joins_at_round for node in nodes_of("late", 4, "tiny", 100)] == [0, 0, 0, 50]
    assert [node.rounds_after for node in nodes_of("late", 4, "tiny", 100)] == [0, 0, 0, 100]
    with pytest.raises(ConfigError, match="unknown scenario"):
        nodes_of("other", 8, "tiny", 100)
    with pytest.raises(ConfigError, match="made for the model tiny"):
        nodes_of("mixed", 8, "Qwen2.5-0.5B", 100)


def test_the_experiments_folder_is_four_above_a_cell(tmp_path):
    assert experiment_of(tmp_path / "cells" / "alike" / "4-4" / "seed-0") == tmp_path


class FakeScorer(ScorerOps):
    """Rewards a text by its length; counts what it is asked."""

    def __init__(self) -> None:
        self.scored: list[tuple[int, int, str]] = []
        self.late = False

    def start(self):
        return ScorerInfo("none")

    def questions(self, addresses):
        prompts = [f"{dataset} {seed}" for dataset, seed in addresses]
        return Questions(prompts, [seed == 9 for _, seed in addresses])

    def score(self, items, deadline_s):
        self.scored += [(dataset, seed, text) for dataset, seed, texts in items for text in texts]
        rewards = [[0.0 if self.late else len(text) / 10 for text in texts] for _, _, texts in items]
        reasons = [["deadline" if self.late else ""] * len(texts) for _, _, texts in items]
        return Scores(*self.questions([item[:2] for item in items]), rewards, reasons, 0.0, 0.0)


def test_the_shared_scorer_asks_once_and_answers_as_the_scorer_does():
    scorer = FakeScorer()
    shared = SharedScorer(scorer)
    items = [ScoreItem(0, 1, ["a", "bb", "a"]), ScoreItem(1, 9, ["a"])]
    assert shared.score(items, 1.0) == scorer.score(items, 1.0)
    scorer.scored.clear()
    assert shared.score_external([ScoreItem(0, 1, ["bb", "ccc"])], 1.0, 0.5).rewards_RG == [[0.2, 0.3]]
    assert scorer.scored == [(0, 1, "ccc")]
    assert shared.questions([Address(1, 9), Address(0, 1)]) == (["1 9", "0 1"], [True, False])


def test_what_came_too_late_is_scored_again():
    scorer = FakeScorer()
    shared = SharedScorer(scorer)
    scorer.late = True
    answer = shared.score([ScoreItem(0, 1, ["bb"])], 1.0)
    assert (answer.rewards_RG, answer.reasons) == ([[0.0]], {"deadline": 1})
    scorer.late = False
    assert shared.score([ScoreItem(0, 1, ["bb"])], 1.0).rewards_RG == [[0.2]]


async def test_a_worker_in_process_serves_its_operations_only():
    worker = InProcess(FakeScorer())
    assert worker.info == await worker.wait_ready() == ScorerInfo("none")
    assert (await worker.call("questions", addresses=[Address(0, 1)], within_s=1.0)).prompts == ["0 1"]
    with pytest.raises(SwarmdError, match="no operation 'start'"):
        await worker.call("start")


def test_stopped_tells_how_far_it_came():
    assert "after 7 rounds" in str(Stopped(7))
    assert replace(cell(), status="done").spec == cell().spec


async def test_the_time_of_an_operation_is_that_of_this_process():
    class Sleeper(FakePolicy):
        def generate(self, **request):
            time.sleep(0.2)
            return super().generate(**request)._replace(seconds=5.0)

    worker, prompts = InProcess(Sleeper()), ["question"]
    request = {"num_completions": 1, "temperature": 1.0, "tokens_max": 8, "seed": 0}
    answer = await worker.call("generate", prompts=prompts, **request)
    assert len(answer.completions_RG) == 1
    assert answer.seconds < 0.2, "waiting is not work"


def test_a_round_that_fails_ends_the_cell_instead_of_spoiling_it(tmp_path, monkeypatch):
    def fail(self, *args, **settings):
        raise OutOfMemory("no memory for the update")

    monkeypatch.setattr("swarmd.policy.service.PolicyService.update", fail)
    monkeypatch.setattr("swarmd.loops.update.RETRY_S", 0.0)
    with pytest.raises(LocalError, match="round 1 of node-"):
        run(cell(), tmp_path)
    assert Cell.load(tmp_path).status == "failed"
