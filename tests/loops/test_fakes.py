"""The fakes against the real services: the same operations, the same arguments, and answers of the same form."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from swarmd.clients.scorer import Address, ScoreItem
from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.policy.model.resolve import download_model, resolve_model
from swarmd.policy.service import PolicyService
from swarmd.questions.service import ScorerService
from swarmd.swarm.service import NetworkService
from tests.loops.fakes import FakeChild, FakeNetwork, FakePolicy, FakeScorer
from tests.loops.parts import MANIFEST
from tests.policy.settings import config

PAIRS = [(FakeScorer, ScorerService), (FakePolicy, PolicyService), (FakeNetwork, NetworkService)]


def form(value: Any) -> Any:
    """Keys and nesting, without the values: what a caller relies on."""
    if isinstance(value, dict):
        return {key: form(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [form(value[0])] if value else []
    return None


def ops(fake: type[FakeChild]) -> list[str]:
    called = [name for name, value in vars(fake).items() if inspect.isfunction(value)]
    return [
        name
        for name in called
        if not name.startswith("_") and name not in ("wait_ready", "restart", "start", "close")
    ]


@pytest.mark.parametrize(("fake", "real"), PAIRS)
def test_the_fake_is_called_as_the_real_one_is(fake: type[FakeChild], real: Any) -> None:
    assert ops(fake)
    for op in ops(fake):
        assert op in real.OPS
        ours, theirs = (inspect.signature(getattr(kind, op)).parameters for kind in (fake, real))
        assert list(ours) == list(theirs), op


@pytest.fixture(scope="module")
def scorer() -> Iterator[ScorerService]:
    scorer = ScorerService(lambda event: None, manifest=MANIFEST.to_bytes(), sandbox="best-effort")
    scorer.start()
    yield scorer
    scorer.close()


@pytest.fixture(scope="module")
def policy() -> PolicyService:
    policy = PolicyService(
        lambda event: None,
        roles=["generate", "update"],
        model_dir=str(download_model(resolve_model("tiny"), lambda done, total: None)),
        device="cpu",
        config=config(model="tiny", threads=1).model_dump_json(),
        checkpoints_dir=None,
    )
    policy.start()
    return policy


def test_the_scorer_answers_in_the_same_form(scorer: ScorerService) -> None:
    fake = FakeScorer(MANIFEST)
    addresses = [Address(0, 1), Address(1, 2)]
    assert form(fake.questions(addresses)) == form(scorer.questions(addresses))
    items = [ScoreItem(0, 1, ["a", "b"]), ScoreItem(1, 2, ["c", "d"])]
    ours, theirs = fake.score(items, 20.0), scorer.score(items, 20.0)
    assert form(ours) == form(theirs)
    assert [len(rewards) for rewards in theirs.rewards_RG] == [2, 2]
    ours, theirs = fake.score_external(items, 20.0, 1.0), scorer.score_external(items, 20.0, 1.0)
    assert form(ours) == form(theirs)


def test_the_same_is_done_beside_the_rest() -> None:
    assert FakeScorer.BESIDE == ScorerService.BESIDE


def test_generation_answers_in_the_same_form(policy: PolicyService) -> None:
    arguments: dict[str, Any] = {
        "prompts": ["1 + 1?"],
        "num_completions": 2,
        "temperature": 1.0,
        "tokens_max": 4,
        "seed": 1,
    }
    assert form(FakePolicy().generate(**arguments)) == form(policy.generate(**arguments))  # fmt: skip


def test_an_update_answers_with_at_least_as_much(policy: PolicyService) -> None:
    completions = tuple(
        ScoredCompletion(text, True, reward, (5, 6)) for text, reward in (("a", 0.0), ("b", 1.0))
    )
    rollout = ScoredRollout(b"a" * 32, 0, 0, "1 + 1?", completions, 0, 0, external=False)
    arguments: dict[str, Any] = {"rollouts": [rollout], "round": 1, "state": {}, "save": "now"}
    ours, theirs = FakePolicy().update(**arguments), policy.update(**arguments)
    assert set(ours.to_record()) <= set(theirs.to_record())
    assert theirs.stats is not None
    assert theirs.stats.skipped in (None, "non_finite")
