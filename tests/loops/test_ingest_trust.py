"""What ingest lets authors use, and what it remembers of them."""

from typing import Any

import pytest
import trio
import trio.testing

from swarmd.errors import LocalError
from swarmd.experience.buffer import AddResult
from swarmd.protocol.signing import Identity
from swarmd.trust.quotas import QuotaLimits, Quotas
from swarmd.trust.standing import Standings
from tests.loops.fakes import MS
from tests.loops.parts import ME, OTHER, Loops, sealed
from tests.loops.test_ingest import ALLOWED, discarded, ingest

NOW_S = MS / 1000


def limited(**changes: float) -> Loops:
    """A node with small quotas, none of them in anybody's way but the one that a test is about."""
    loops = Loops()
    loops.trust.standings.proven_rollouts = 100
    limits = {"bytes_per_s": 1e6, "tokens_per_s": 1e6, "cpu_ms_per_s": 1e6, "burst_s": 1.0, **changes}
    loops.trust.quotas = Quotas(QuotaLimits(**limits), loops.trust.standings.proven)
    return loops


def strangers(num: int) -> list[Identity]:
    return [Identity.from_seed(bytes([number]) * 32) for number in range(1, num + 1)]


def answer_with(loops: Loops, **changes: Any) -> None:
    """Have the scorer say this too."""
    score = loops.scorer.score
    loops.scorer.score = lambda **args: score(**args)._replace(**changes)  # type: ignore[method-assign]


async def test_twenty_new_identities_are_scored_as_much_as_one() -> None:
    one, twenty = limited(tokens_per_s=8.0), limited(tokens_per_s=8.0)
    await ingest(one, *(sealed([counter]) for counter in ALLOWED))
    await ingest(twenty, *(sealed([ALLOWED[0]], identity=stranger) for stranger in strangers(20)))
    assert [len(loops.scorer.asked("score_external")) for loops in (one, twenty)] == [4, 4]
    assert twenty.count("trust_dropped_total", reason="tokens") == 16
    assert discarded(twenty) == {"over_quota": 16}


async def test_a_proven_author_is_not_hindered_by_them() -> None:
    loops = limited(tokens_per_s=8.0)
    loops.trust.standings.scored(OTHER.public_key, num_rollouts=100)
    await ingest(
        loops, *(sealed([ALLOWED[0]], identity=stranger) for stranger in strangers(20)), sealed([ALLOWED[0]])
    )
    assert len(loops.scorer.asked("score_external")) == 5


async def test_over_quota_is_no_offence() -> None:
    loops = limited(bytes_per_s=1.0)
    await ingest(loops, *(sealed([counter]) for counter in ALLOWED))
    assert loops.trust.standings.offences.points(OTHER.public_key, NOW_S) == 0.0
    assert loops.scorer.calls == []


@pytest.mark.parametrize("cost", ["cpu_s", "held_s"])
async def test_scoring_time_is_charged_to_whom_it_was_for(cost: str) -> None:
    loops = limited(cpu_ms_per_s=1000.0)
    answer_with(loops, **{cost: 1.5})
    await ingest(loops, sealed(ALLOWED[:1]), sealed(ALLOWED[1:2]))
    assert (len(loops.stored), loops.count("trust_dropped_total", reason="cpu")) == (1, 1)


async def test_who_holds_a_worker_too_long_pays_for_it_and_delays_nobody() -> None:
    loops = limited(cpu_ms_per_s=1000.0)
    loops.trust.standings.scored(OTHER.public_key, num_rollouts=100)
    loops.scorer.reason_of = lambda text: "deadline"
    answer_with(loops, held_s=1.5)
    await ingest(loops, sealed(ALLOWED[:2]), sealed(ALLOWED[2:3]))
    assert (loops.stored, discarded(loops)) == ([], {"deadline": 2, "over_quota": 1})
    loops.scorer.reason_of = lambda text: None
    await ingest(loops, sealed(ALLOWED[:1], identity=strangers(1)[0]))
    assert len(loops.stored) == 1


async def test_a_scoring_that_ends_the_scorer_is_paid_for_with_its_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = limited(cpu_ms_per_s=1000.0)
    loops.scorer.delays_s = lambda op: 1.5
    loops.scorer.fail("score_external", LocalError("two zygotes died"))
    await ingest(loops, sealed(ALLOWED[:1]), sealed(ALLOWED[1:2]))
    assert discarded(loops) == {"scorer_failed": 1, "over_quota": 1}


async def test_own_rounds_go_on_while_a_strangers_scoring_stands_still(
    autojump_clock: trio.testing.MockClock,
) -> None:
    loops = Loops()
    loops.scorer.gates["score_external"] = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ingest, loops, sealed(ALLOWED[:1]))
        await trio.testing.wait_all_tasks_blocked()
        await loops.generate().once()
        assert (len(loops.scorer.asked("score")), loops.stored) == (1, [])
        nursery.cancel_scope.cancel()


async def test_our_own_messages_have_no_quota() -> None:
    loops = limited(bytes_per_s=1.0)
    loops.trust.standings.ban(ME.public_key, NOW_S, for_s=None, reason="")
    own = loops.ingest(_given(sealed(ALLOWED[:1], identity=ME)), source="own")
    await own.run()
    assert (len(loops.scorer.asked("score_external")), loops.trust.standings.of(ME.public_key)) == (1, None)


async def _given(*messages: bytes) -> Any:
    for message in messages:
        yield message


async def test_a_banned_author_is_not_scored() -> None:
    loops = Loops()
    loops.trust.standings.ban(OTHER.public_key, NOW_S, for_s=60, reason="")
    await ingest(loops, sealed(ALLOWED[:2]))
    assert (loops.scorer.calls, discarded(loops)) == ([], {"banned": 2})
    assert loops.count("trust_dropped_total", reason="banned") == 1


async def test_an_author_becomes_proven_by_what_was_scored_and_stored() -> None:
    loops = Loops()
    await ingest(loops, sealed(ALLOWED[:2]))
    standing = loops.trust.standings.of(OTHER.public_key)
    assert standing is not None
    assert (standing.num_scored, standing.num_informative) == (2, 2)
    assert loops.trust.standings.proven(OTHER.public_key)


async def test_but_not_by_what_came_before() -> None:
    loops = Loops()
    loops.add = lambda *args: AddResult(0, 2, 0)  # type: ignore[method-assign]
    await ingest(loops, sealed(ALLOWED[:2]))
    standing = loops.trust.standings.of(OTHER.public_key)
    assert standing is not None
    assert (standing.num_scored, standing.num_duplicate, loops.count("trust_duplicates_total")) == (0, 2, 2)


@pytest.mark.parametrize("reason", ["refused", "cpu_limit", "deadline", "forbidden_syscall"])
async def test_nor_by_what_a_guard_or_the_sandbox_found_fault_with(reason: str) -> None:
    loops = Loops()
    loops.scorer.reason_of = lambda text: reason
    await ingest(loops, sealed(ALLOWED[:2]))
    assert not loops.trust.standings.proven(OTHER.public_key)


async def test_a_malformed_rollout_takes_nothing_from_the_others_of_its_batch() -> None:
    loops = Loops()
    reasons = iter(["answer_too_long", "answer_too_long"])  # both completions of the first rollout
    loops.scorer.reason_of = lambda text: next(reasons, None)
    await ingest(loops, sealed(ALLOWED[:3]))
    standing = loops.trust.standings.of(OTHER.public_key)
    assert standing is not None
    assert (standing.num_scored, standing.proof) == (2, 2.0)


async def test_texts_without_an_answer_prove_nothing_where_own_ones_have_one() -> None:
    loops = Loops()
    loops.scorer.reason_of = lambda text: "no_answer"
    await ingest(loops, *(sealed([counter]) for counter in ALLOWED))
    standing = loops.trust.standings.of(OTHER.public_key)
    assert standing is not None
    assert (standing.num_scored, standing.proof) == (len(ALLOWED), 0.0)
    assert not loops.trust.standings.proven(OTHER.public_key)


async def test_a_text_that_attacks_the_scorer_proves_nothing_by_what_stands_beside_it() -> None:
    loops = Loops()
    reasons = iter(["forged_reply"])
    loops.scorer.reason_of = lambda text: next(reasons, None)
    await ingest(loops, sealed(ALLOWED[:3]))
    assert not loops.trust.standings.proven(OTHER.public_key)


@pytest.mark.parametrize("reason", ["forbidden_syscall", "forged_reply"])
async def test_texts_that_attack_the_scorer_get_their_author_banned(reason: str) -> None:
    loops = Loops()
    loops.trust.standings = Standings(proven_rollouts=2, ban_points=100.0)
    answer_with(loops, reasons_RG=[[reason, ""]])
    await ingest(loops, *(sealed([counter]) for counter in ALLOWED))
    assert loops.trust.standings.banned(OTHER.public_key, NOW_S)
    assert (
        loops.count("trust_evidence_total", kind=reason),
        loops.count("trust_bans_total", by="points"),
    ) == (4, 1)
    assert discarded(loops) == {"banned": 2}


@pytest.mark.parametrize(
    "reason", ["no_answer", "refused", "deadline", "cpu_limit", "worker_died", "zygote_died"]
)
async def test_nothing_else_that_a_scorer_says_is_held_against_anybody(reason: str) -> None:
    loops = Loops()
    answer_with(loops, reasons_RG=[[reason, reason]])
    await ingest(loops, *(sealed([counter]) for counter in ALLOWED))
    assert loops.trust.standings.offences.points(OTHER.public_key, NOW_S) == 0.0
