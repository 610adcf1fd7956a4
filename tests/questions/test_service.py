"""The scorer as its child serves it: right rewards, and an answer whatever happens to the processes below."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from swarmd.errors import ConfigError, IncompatibleSwarm, LocalError
from swarmd.protocol.manifest import DatasetSpec, Limits, Manifest, load_manifest
from swarmd.questions.datasets import OFFERED, SCORER_VERSION
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.seal import goldens_of, sealed
from swarmd.questions.service import ITEMS_MAX, ScorerService
from tests.questions.asking import questions, score, score_external
from tests.questions.hostile import payloads

_OBEDIENT = "tests.questions.misbehaving_zygote"


def make(manifest: Manifest, **settings: Any) -> ScorerService:
    return ScorerService(
        lambda event: None, manifest=manifest.to_bytes(), **{"sandbox": "best-effort", **settings}
    )


def manifest_of(*specs: DatasetSpec, scorer_version: int = SCORER_VERSION) -> Manifest:
    return Manifest(
        name="test",
        datasets=specs,
        prompt_template="Q: {question}",
        answer_format="tags",
        scorer_version=scorer_version,
        epoch=0,
        held_out_per_mille=50,
        limits=Limits(),
    )


@cache
def all_offered() -> Manifest:
    """A sealed manifest of all offered datasets; their goldens take seconds."""
    specs = [
        DatasetSpec(name=name, reward="exact" if offer.exact_only else "upstream")
        for name, offer in OFFERED.items()
    ]
    draft = manifest_of(*specs)
    return sealed(draft, goldens_of(draft))


@pytest.fixture(scope="module", params=["best-effort", "off"])
def every(request: pytest.FixtureRequest) -> Iterator[ScorerService]:
    """A service for all offered datasets, with the sandbox and without."""
    service = make(all_offered(), sandbox=request.param)
    service.start()
    yield service
    service.close()


@pytest.fixture(scope="module", params=["best-effort", "off"])
def obedient(request: pytest.FixtureRequest) -> Iterator[ScorerService]:
    """A service whose workers do what the text says."""
    service = make(load_manifest("tiny"), sandbox=request.param, zygote=_OBEDIENT)
    request.node.contained = service.start().sandbox.startswith("full")
    yield service
    service.close()


@pytest.mark.parametrize("name", ["tiny", "reasoning", "reasoning-paper"])
def test_embedded_swarms_score_their_own_oracles(name: str) -> None:
    manifest = load_manifest(name)
    service = make(manifest)
    service.start()
    sources = [QuestionSource(DatasetChoice(d.name, d.params, d.reward)) for d in manifest.datasets]
    items = [source.item(9) for source in sources]
    oracles = [item["answer"] or item["metadata"]["example_answer"] for item in items]
    scored = score(service, [[n, 9, [f"<answer>{o}</answer>", "?"]] for n, o in enumerate(oracles)], 20.0)
    service.close()
    assert scored.prompts == [manifest.render(item["question"]) for item in items]
    assert all(full >= 0.25 and none == 0 for full, none in scored.rewards_RG)
    assert scored.reasons == {"no_answer": len(items)}


def test_questions_and_scores_name_the_same_prompts(every: ScorerService) -> None:
    items = [[number, 77] for number in range(len(OFFERED))]
    asked = questions(every, items)
    scored = score(every, [[*item, []] for item in items], 20.0)
    assert asked == (scored.prompts, scored.held_out)
    assert scored.rewards_RG == [[] for _ in items]


def test_held_out_is_the_manifests_word(every: ScorerService) -> None:
    items = [[0, seed] for seed in range(200)]
    answer = questions(every, items)
    manifest = manifest_of(DatasetSpec(name="gcd"))
    assert answer.held_out == [manifest.is_held_out(prompt) for prompt in answer.prompts]
    assert any(answer.held_out)


def test_hostile_completions_change_nothing(every: ScorerService, anybodys_folder: Path) -> None:
    marker = anybodys_folder / "marker"
    texts = [f"<answer>{text}</answer>" for text in payloads(str(marker))]
    scored = score(every, [[number, 11, texts] for number in range(len(OFFERED))], 60.0)
    assert not marker.exists()
    assert all(0 <= reward <= 1 for rewards in scored.rewards_RG for reward in rewards)
    assert not {"deadline", "worker_died", "forbidden_syscall", "zygote_died"} & set(scored.reasons)


def test_a_large_batch_fits(every: ScorerService) -> None:
    scored = score(every, [[0, seed, ["\u20ac" * 5000] * 16] for seed in range(64)], 60.0)
    assert scored.reasons == {"no_answer": 64 * 16}


def test_nothing_to_score(every: ScorerService) -> None:
    scored = score(every, [], 1.0)
    assert scored[:4] == ([], [], [], [])
    assert 0 < scored.cpu_s + scored.held_s < 1


@pytest.mark.parametrize("act", ["hang", "sleep 60"])
def test_what_a_text_costs_is_reported(obedient: ScorerService, act: str) -> None:
    # the cheapest of some: other work may hold one of them up
    cheap = min(score(obedient, [[0, 1, ["fine"]]], 20.0).held_s for _ in range(5))
    dear = score_external(obedient, [[0, 1, [act]]], 20.0, 0.5).held_s
    assert 0 < cheap < 0.5 <= dear


@pytest.mark.parametrize("act", ["hang", "sleep 60"])
def test_a_stranger_that_holds_its_worker_is_ended_long_before_the_deadline(
    obedient: ScorerService, act: str
) -> None:
    scored = score_external(obedient, [[0, 1, ["fine"]], [0, 2, [act]], [0, 3, ["fine"]]], 3600.0, 1.0)
    assert scored.rewards_RG == [[1.0], [0.0], [0.0]]
    assert scored.reasons == {"deadline": 2}


def test_workers_that_end_themselves_in_turn_hold_no_longer_than_one(obedient: ScorerService) -> None:
    # Seven of them are five seconds. While their reader waits for a core nobody holds anything: on a busy machine they are more.
    items = [[0, seed, ["sleep 0.7"]] for seed in range(64)]
    scored = score_external(obedient, items, 3600.0, 5.0)
    assert set(scored.reasons) == {"worker_died", "deadline"}
    assert scored.reasons["deadline"] > scored.reasons["worker_died"]


def test_own_scores_go_on_beside_a_worker_that_sleeps(obedient: ScorerService) -> None:
    with ThreadPoolExecutor(1) as stranger:
        asleep = stranger.submit(score_external, obedient, [[0, 1, ["sleep 60"]]], 3600.0, 4.0)
        own = score(obedient, [[0, 2, ["fine"]]], 20.0)
        assert not asleep.done()
        assert (own.rewards_RG, asleep.result().reasons) == ([[1.0]], {"deadline": 1})


def test_a_zygote_lost_beside_an_own_score_costs_the_own_one_nothing(obedient: ScorerService) -> None:
    before = obedient._zygote.num_starts
    with ThreadPoolExecutor(2) as calls:
        scores = [calls.submit(score, obedient, [[0, n, ["fine"]]] * 50, 60.0) for n in range(2)]
        assert obedient._zygote.pid is not None
        os.kill(obedient._zygote.pid, signal.SIGKILL)
        assert [score.result().rewards_RG for score in scores] == [[[1.0]] * 50] * 2
    assert obedient._zygote.num_starts == before + 1


def test_a_seed_that_is_computed_for_ever_is_no_question() -> None:
    service = make(load_manifest("tiny"), zygote="tests.questions.zygotes.with_endless_question")
    service.start()
    endless, other = questions(service, [[0, 13], [0, 14]]).prompts
    service.close()
    assert (endless, bool(other)) == ("", True)


def test_regenerating_is_part_of_the_cost() -> None:
    draft = manifest_of(DatasetSpec(name="simple_equations"))  # 3 ms a question
    service = make(sealed(draft, goldens_of(draft)))
    service.start()
    anew, again = (score(service, [[0, seed, []] for seed in range(100, 200)], 20.0) for _ in range(2))
    service.close()
    assert anew.prompts == again.prompts
    assert anew.cpu_s > 2 * again.cpu_s


@pytest.mark.parametrize("item", [[99, 1], [-1, 1], [True, 1], [0, -1], [0, 2**31], [0, None], [0, 1.0]])
def test_an_address_outside_the_manifest_is_refused(every: ScorerService, item: list[Any]) -> None:
    with pytest.raises(ConfigError):
        questions(every, [item])


def test_too_many_questions_are_refused(every: ScorerService) -> None:
    with pytest.raises(ConfigError, match=str(ITEMS_MAX)):
        questions(every, [[0, 1]] * (ITEMS_MAX + 1))


def test_a_completion_must_be_text(every: ScorerService) -> None:
    with pytest.raises(ConfigError, match="not a string"):
        score(every, [[0, 1, [b"1"]]], 1.0)


def test_a_scorer_that_hangs_is_killed_at_the_deadline(obedient: ScorerService) -> None:
    scored = score(obedient, [[0, 1, ["fine"]], [0, 2, ["fine", "hang"]], [0, 3, ["fine"]]], 2.0)
    assert scored.rewards_RG == [[1.0], [0.0, 0.0], [0.0]]
    assert scored.reasons == {"deadline": 3}
    assert all(scored.prompts)


def test_a_deadline_that_is_over_still_answers(obedient: ScorerService) -> None:
    scored = score(obedient, [[0, 1, ["fine"]]], 0.0)
    assert (scored.rewards_RG, scored.reasons) == ([[0.0]], {"deadline": 1})


def test_a_worker_that_dies_costs_its_item_only(obedient: ScorerService) -> None:
    scored = score(obedient, [[0, 1, ["fine"]], [0, 2, ["exit", "fine"]], [0, 3, ["fine"]]], 20.0)
    assert scored.rewards_RG == [[1.0], [0.0, 0.0], [1.0]]
    assert scored.reasons == {"worker_died": 2}


def test_memory_of_a_worker_is_bounded(obedient: ScorerService) -> None:
    scored = score(obedient, [[0, 1, ["allocate"]], [0, 2, ["fine"]]], 20.0)
    assert (scored.rewards_RG, scored.reasons) == ([[0.0], [1.0]], {"worker_died": 1})


@pytest.mark.parametrize("reward", ["nan", "2", "-1"])
def test_a_forged_reply_is_worth_nothing(obedient: ScorerService, reward: str) -> None:
    scored = score(obedient, [[0, 1, [f"forge {reward}"]], [0, 2, ["fine"]]], 20.0)
    assert (scored.rewards_RG, scored.reasons) == ([[0.0], [1.0]], {"forged_reply": 1})


@pytest.mark.parametrize("crime", ["socket", "fork"])
def test_a_forbidden_call_is_reported(crime: str) -> None:
    service = make(load_manifest("tiny"), zygote=_OBEDIENT)
    contained = service.start().sandbox.startswith("full")
    scored = score(service, [[0, 1, [crime]], [0, 2, ["fine"]]], 20.0)
    service.close()
    if not contained:
        pytest.skip("this kernel lacks landlock or seccomp")
    assert (scored.rewards_RG, scored.reasons) == ([[0.0], [1.0]], {"forbidden_syscall": 1})


def test_a_file_cannot_be_read() -> None:
    service = make(load_manifest("tiny"), zygote=_OBEDIENT)
    contained = service.start().sandbox.startswith("full")
    scored = score(service, [[0, 1, ["read /etc/passwd"]]], 20.0)
    service.close()
    if not contained:
        pytest.skip("this kernel lacks landlock or seccomp")
    assert scored.rewards_RG == [[0.0]]


def test_a_killed_zygote_is_replaced(obedient: ScorerService) -> None:
    before = obedient._zygote.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    scored = score(obedient, [[0, 1, ["fine"]]], 20.0)
    assert (scored.rewards_RG, scored.reasons) == ([[1.0]], {})
    assert obedient._zygote.pid != before


def test_a_text_that_keeps_killing_the_zygote_scores_nothing() -> None:
    """Without a sandbox a worker of the same user can; the service survives it."""
    service = make(load_manifest("tiny"), sandbox="off", zygote=_OBEDIENT)
    service.start()
    scored = score(service, [[0, 1, ["murder"]], [0, 2, ["fine"]]], 20.0)
    again = score(service, [[0, 2, ["fine"]]], 20.0)
    service.close()
    assert (scored.rewards_RG, scored.reasons) == ([[0.0], [0.0]], {"zygote_died": 2})
    assert again.rewards_RG == [[1.0]]


_ORPHAN = """
import sys
from swarmd.clients.scorer import ScoreItem
from swarmd.protocol.manifest import load_manifest
from swarmd.questions.service import ScorerService
service = ScorerService(print, manifest=load_manifest("tiny").to_bytes(), sandbox="off", zygote=sys.argv[1])
service.start()
print(service._zygote.pid, flush=True)
service.score([ScoreItem(0, 1, ["hang " + sys.argv[2]])], 300.0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs pidfd and the death signal")
def test_nothing_outlives_a_killed_service(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [sys.executable, "-c", _ORPHAN, _OBEDIENT, str(fifo)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(parent.stdout.readline()), int(fifo.read_text())]  # the worker writes when it hangs
        handles = [os.pidfd_open(pid) for pid in pids]
        parent.kill()
        for handle in handles:
            assert select.select([handle], [], [], 20.0)[0], "a process outlived its service"
            os.close(handle)


@pytest.mark.parametrize(
    ("manifest", "kind"),
    [
        (manifest_of(DatasetSpec(name="gcd"), scorer_version=99), IncompatibleSwarm),
        (manifest_of(DatasetSpec(name="coin_flip")), IncompatibleSwarm),
        (manifest_of(DatasetSpec(name="spell_backward", params={"data_file": "/etc/passwd"})), ConfigError),
        (manifest_of(DatasetSpec(name="prime_factorization")), ConfigError),
        (manifest_of(DatasetSpec(name="gcd", params={"min_value": 9000}, golden="0" * 64)), ConfigError),
        (manifest_of(DatasetSpec(name="gcd", golden="0" * 64)), IncompatibleSwarm),
        (manifest_of(DatasetSpec(name="gcd")), ConfigError),
    ],
)
def test_a_swarm_that_this_build_cannot_score_is_refused(manifest: Manifest, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        make(manifest).start()


def test_a_draft_says_how_to_seal_it() -> None:
    with pytest.raises(ConfigError, match=r"golden digest for gcd, lcm(.|\n)*swarmd manifest seal"):
        make(manifest_of(DatasetSpec(name="gcd"), DatasetSpec(name="lcm"))).start()


def test_a_zygote_that_does_not_start_is_reported() -> None:
    with pytest.raises(LocalError, match="zygote did not start"):
        make(load_manifest("tiny"), zygote="swarmd.no_such_module").start()


def test_an_unknown_sandbox_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="best-effort, require, off"):
        make(load_manifest("tiny"), sandbox="maybe")
