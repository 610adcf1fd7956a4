"""The control in which a node's own older rollouts stand in for external ones: its own alone, and never those of the same round."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import trio

from swarmd.config import load_config
from swarmd.errors import ConfigError
from swarmd.experience.buffer import SwarmBuffer
from swarmd.experience.schema import Whose
from swarmd.experiment.cell import Cell, NodeSpec
from swarmd.experiment.run_cell import run_cell
from swarmd.loops.answers import OwnRollouts
from swarmd.protocol.types import Completion, Rollout
from tests.experience.batches import NOW_MS, UNINFORMATIVE, add, author, open_buffer
from tests.loops.fakes import GOOD, MS
from tests.loops.parts import ME, OTHER, Loops, sealed

OTHERS = Whose(author("me"), others=True)


async def ingested(source: Any) -> Loops:
    """After a message of ours and two of another node."""
    loops = Loops()
    into, inbox = trio.open_memory_channel[bytes](3)
    for message in (sealed([0], identity=ME), sealed([1], identity=OTHER), sealed([2], identity=OTHER)):
        into.send_nowait(message)
    into.close()
    await loops.ingest(inbox, source=source).run()
    return loops


@pytest.mark.parametrize(("source", "num_stored"), [("swarm", 2), ("own", 1)])
async def test_a_message_is_let_in_from_one_side_only(source: str, num_stored: int) -> None:
    loops = await ingested(source)
    assert len(loops.stored) == len(loops.scorer.asked("score_external")) == num_stored


def mine_and_others(folder: Path) -> SwarmBuffer:
    """Six rollouts of this node, four of them informative, and two of another."""
    buffer = open_buffer(folder, uses_max=99)
    add(buffer, "me", [3, 4, 5, 6])
    add(buffer, "me", [1, 7], rewards_G=UNINFORMATIVE)
    add(buffer, "ann", [2, 9])
    return buffer


@pytest.mark.parametrize(("counter_max", "counters"), [(0, []), (3, []), (5, [3, 4]), (99, [3, 4, 5, 6])])
def test_own_rollouts_are_drawn_only_if_they_are_older(
    tmp_path: Path, counter_max: int, counters: list[int]
) -> None:
    older = Whose(author("me"), others=False, counter_max=counter_max)
    sample = mine_and_others(tmp_path).sample(4, random.Random(1), now_ms=NOW_MS, whose=older)
    assert {rollout.author for rollout in sample.rollouts} <= {author("me")}
    assert sorted(rollout.counter for rollout in sample.rollouts) == counters
    assert (sample.shortfall, sample.num_informative_pool) == (4 - len(counters), len(counters))


def test_the_pool_is_counted_for_those_that_may_be_drawn(tmp_path: Path) -> None:
    buffer = mine_and_others(tmp_path)
    older = buffer.sample(
        0, random.Random(1), now_ms=NOW_MS, whose=Whose(author("me"), others=False, counter_max=5)
    )
    theirs = buffer.sample(0, random.Random(1), now_ms=NOW_MS, whose=OTHERS)
    assert (older.num_pool, theirs.num_pool) == (3, 2)
    much_later = buffer.sample(0, random.Random(1), now_ms=NOW_MS + 10**9, whose=OTHERS)
    assert (much_later.num_pool, much_later.num_over_age) == (0, 2)


def test_what_the_control_left_in_the_buffer_is_not_drawn_as_somebody_elses(tmp_path: Path) -> None:
    sample = mine_and_others(tmp_path).sample(9, random.Random(1), now_ms=NOW_MS, whose=OTHERS)
    assert {rollout.author for rollout in sample.rollouts} == {author("ann")}


async def test_without_a_network_own_messages_still_reach_the_buffer() -> None:
    loops, messages = Loops(), list[bytes]()
    into, outbox = trio.open_memory_channel[OwnRollouts](1)
    share = loops.share(outbox)
    share.network, share.on_message = None, messages.append
    completions = (Completion(text=GOOD, finished=True),) * 2
    into.send_nowait(OwnRollouts((Rollout(dataset=0, counter=0, completions=completions),), MS, 0))
    into.close()
    await share.run()
    assert len(messages) == 1
    assert (loops.progress.history.num_shared, loops.network.calls) == (0, [])


@pytest.fixture(scope="module")
def rounds_RN(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """Records of two nodes, wired as the daemon's are, that each learn from their own past."""
    directory = tmp_path_factory.mktemp("cell")
    settings = {
        "experience.mix": "4/4",
        "experience.source": "own",
        "experience.uses_max": 99,
        "evaluate.num_questions": 0,
        "policy.tokens_max": 8,
    }
    Cell("alike", "4/4 self", settings, 0, (NodeSpec("node-0"), NodeSpec("node-1")), 4).save(directory)
    assert run_cell(directory, deadline_s=None, on_progress=lambda done, rounds: None).status == "done"
    return [
        [json.loads(line) for line in (directory / f"node-{number}" / "rounds.jsonl").open()]
        for number in (0, 1)
    ]


def test_nodes_of_the_control_use_nobody_elses(rounds_RN: list[list[dict[str, Any]]]) -> None:
    used = [{author for record in rounds for author in record["used_by_author"]} for rounds in rounds_RN]
    assert all(len(authors) <= 1 for authors in used)
    assert sum(record["num_external"] for rounds in rounds_RN for record in rounds) > 0
    assert used[0].isdisjoint(used[1])


def test_the_first_round_has_nothing_older(rounds_RN: list[list[dict[str, Any]]]) -> None:
    for first, second, *_ in rounds_RN:
        assert (first["num_external"], first["num_pool"], first["shortfall"]) == (0, 0, 4)
        assert second["num_pool_informative"] == first["num_own_informative"]


@pytest.mark.parametrize(("source", "num_external"), [("swarm", 0), ("own", 4)])
def test_alone_only_a_nodes_own_past_can_be_drawn(source: str, num_external: int) -> None:
    config = load_config(
        flags={"swarm.solo": True, "experience.source": source, "experience.mix": "4/4"}, environ={}
    )
    assert config.num_external == num_external


@pytest.mark.parametrize("value", ["self", "", "peers"])
def test_another_source_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="source"):
        load_config(flags={"experience.source": value}, environ={})
