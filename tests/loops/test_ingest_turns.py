"""Several messages of one author are scored in one call, and each is stored, counted and refused for itself."""

from typing import Any

import pytest
import trio

from swarmd.clients.scorer import COMPLETIONS_MAX
from swarmd.errors import DiskFull
from swarmd.experience.buffer import AddResult
from swarmd.loops.ingest import MESSAGES_MAX
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from tests.loops.fakes import BAD, GOOD, MS
from tests.loops.parts import MANIFEST, OTHER, Loops, sealed
from tests.loops.test_ingest import ALLOWED, counters_held_out, discarded


async def take_turn(loops: Loops, *messages: bytes) -> None:
    """Ingest what one author sent, all of it waiting already."""
    waiting = list(messages)
    into, inbox = trio.open_memory_channel[bytes](1)
    ingest = loops.ingest(inbox)
    ingest.more = lambda: waiting.pop(0) if waiting else None
    into.send_nowait(waiting.pop(0))
    into.close()
    await ingest.run()


def large(counter: int, num_completions: int) -> bytes:
    """One rollout of so many completions."""
    completions = tuple(Completion(text=GOOD if n else BAD, finished=True) for n in range(num_completions))
    rollouts = (Rollout(dataset=0, counter=counter, completions=completions),)
    return OTHER.seal(
        RolloutBatch(rollouts=rollouts),
        created_ms=MS,
        policy="fake",
        policy_version=0,
        swarm=MANIFEST.digest,
    )


async def test_one_call_scores_them_and_each_is_stored_with_its_own_rewards() -> None:
    loops = Loops()
    await take_turn(loops, sealed(ALLOWED[:2]), sealed(ALLOWED[2:3]), sealed(ALLOWED[3:6]))
    assert [len(args["items"]) for args in loops.scorer.asked("score_external")] == [6]
    seeds = [MANIFEST.question_seed(OTHER.public_key, 0, counter) for counter in ALLOWED]
    prompts = [MANIFEST.render(f"question 0 {seed}") for seed in seeds]
    assert [stored for stored, _ in loops.stored] == [prompts[:2], prompts[2:3], prompts[3:6]]
    assert [rewards for _, rewards in loops.stored] == [[[1.0, 0.0]] * num for num in (2, 1, 3)]
    standing = loops.trust.standings.of(OTHER.public_key)
    assert standing is not None
    assert (standing.num_scored, loops.progress.history.num_received) == (6, 6)


async def test_one_that_is_invalid_costs_the_others_nothing() -> None:
    loops = Loops()
    await take_turn(loops, b"noise", sealed(ALLOWED[:1]), sealed(ALLOWED[:1]), sealed(ALLOWED[1:2]))
    assert discarded(loops) == {"invalid": 2}
    assert len(loops.stored) == 2


async def test_one_that_cannot_be_stored_costs_the_others_nothing() -> None:
    loops, num = Loops(), 0
    add = loops.add

    def sometimes(*args: Any) -> AddResult:
        nonlocal num
        num += 1
        if num == 2:
            raise DiskFull("no space")
        return add(*args)

    loops.add = sometimes  # type: ignore[method-assign]
    await take_turn(loops, sealed(ALLOWED[:1]), sealed(ALLOWED[1:4]), sealed(ALLOWED[4:6]))
    assert discarded(loops) == {"disk_full": 3}
    assert loops.progress.history.num_received == 3


async def test_a_held_out_question_spoils_the_turn_of_who_asked_it() -> None:
    loops = Loops()
    await take_turn(loops, sealed(ALLOWED[:2]), sealed(counters_held_out(1, held_out=True)))
    assert (loops.stored, discarded(loops)) == ([], {"held_out": 3})


@pytest.mark.parametrize("num_completions", [2, 60])
async def test_a_turn_ends_with_a_full_piece_or_so_many_messages(num_completions: int) -> None:
    loops = Loops()
    counters = counters_held_out(40, held_out=False)
    await take_turn(loops, *(large(counter, num_completions) for counter in counters))
    num_scored = sum(len(call["items"]) for call in loops.scorer.asked("score_external"))
    assert num_scored == min(MESSAGES_MAX, -(-COMPLETIONS_MAX // num_completions))
