"""The floor with the embedded policy: right answers behind garbage are left out, what a peer like this node writes is not."""

import random
import string

import pytest

from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.policy.model.resolve import download_model, resolve_model
from swarmd.policy.service import PolicyService
from tests.policy.services import as_external, own_rollout, rollout, service

PROMPTS = [
    *(
        f"Solve the following multiplication: {a} * {b}. Give only the result as your final answer.\n"
        for a, b in [(3, 9), (7, 8), (12, 4), (6, 6), (5, 11), (2, 17), (9, 9), (4, 13)]
    ),
    *(
        f"Find the Least Common Multiple (LCM) of these numbers: {a}, {b}\n"
        for a, b in [(7, 10), (17, 20), (4, 6), (9, 12), (3, 5), (8, 14), (15, 6), (2, 9)]
    ),
]


@pytest.fixture(scope="module")
def policy() -> PolicyService:
    """With 64 own completions behind it, so that there is a floor."""
    folder = download_model(resolve_model("tiny"), lambda done, total: None)
    policy = service(folder, tokens_max=16, learning_rate=1e-9, external_logp_min="auto")
    policy.start()
    for round, prompts in enumerate((PROMPTS[:8], PROMPTS[8:]), 1):
        own = [own_rollout(policy, prompt, seed=n, counter=n) for n, prompt in enumerate(prompts)]
        policy.update(own, round, {}, save="no")
    return policy


def dropped(policy: PolicyService, rollouts: list[ScoredRollout]) -> float:
    """The share of these external completions that is left out."""
    stats = policy.update(rollouts, 9, {}, save="no").to_record()
    assert stats["external_logp_min"] is not None
    return float(stats["num_external_dropped"]) / sum(len(r.completions) for r in rollouts)


def answered(prompt: str, right: str, wrong: str, counter: int) -> ScoredRollout:
    """A peer's rollout: one text is rewarded, the other is not."""
    completions = [ScoredCompletion(right, True, 1.0), ScoredCompletion(wrong, True, 0.0)]
    return rollout(prompt, completions, counter=counter, external=True)


@pytest.mark.parametrize("num_letters", [1, 3, 8])
def test_right_answers_behind_garbage_are_left_out(policy: PolicyService, num_letters: int) -> None:
    rng = random.Random(num_letters)
    rollouts = []
    for counter, prompt in enumerate(PROMPTS):
        garbage = "".join(rng.choice(string.ascii_lowercase) for _ in range(num_letters))
        rollouts.append(answered(prompt, f"{garbage}<answer>4</answer>", "= 4", counter))
    assert dropped(policy, rollouts) >= 0.95


def test_what_a_node_of_the_same_policy_writes_is_kept(policy: PolicyService) -> None:
    theirs = [
        as_external(own_rollout(policy, prompt, seed=1000 + n, counter=n)) for n, prompt in enumerate(PROMPTS)
    ]
    assert dropped(policy, theirs) <= 0.07


def test_without_the_floor_all_of_it_would_be_learnt(policy: PolicyService) -> None:
    free = service(policy._model_dir, tokens_max=16, learning_rate=1e-9, external_logp_min="off")
    free.start()
    rollouts = [answered(prompt, "qzx<answer>4</answer>", "= 4", n) for n, prompt in enumerate(PROMPTS)]
    assert free.update(rollouts, 1, {}, save="no").to_record()["num_external_dropped"] == 0
