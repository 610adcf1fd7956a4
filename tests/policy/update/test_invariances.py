"""What must not change a round's gradient, and a small problem on which the reward must rise."""

import random
from dataclasses import replace

import pytest
import torch

from swarmd.policy.update.packing import TokenCompletion, TokenRollout
from tests.policy.plain_reference import worst_difference
from tests.policy.settings import learner_with
from tests.policy.tiny_models import EOS, build, round_of


def gradient_difference(one: list[TokenRollout], other: list[TokenRollout], **settings: object) -> float:
    learner = learner_with(build(), **{"tokens_max": 12, **settings})
    return worst_difference(learner.gradients(one)[1], learner.gradients(other)[1])


def shuffled(rollouts: list[TokenRollout]) -> list[TokenRollout]:
    rng = random.Random(3)
    mixed = [replace(r, completions=tuple(rng.sample(r.completions, len(r.completions)))) for r in rollouts]
    return rng.sample(mixed, len(mixed))


@pytest.mark.parametrize("aggregation", ["dapo", "grpo", "dr_grpo"])
def test_order_does_not_matter(aggregation: str) -> None:
    assert gradient_difference(round_of(), shuffled(round_of()), aggregation=aggregation) < 1e-5


@pytest.mark.parametrize("aggregation", ["dapo", "grpo", "dr_grpo"])
def test_local_and_external_rollouts_weigh_the_same(aggregation: str) -> None:
    theirs = [replace(r, external=not r.external) for r in round_of()]
    assert gradient_difference(round_of(), theirs, aggregation=aggregation) == 0


def test_a_zero_advantage_rollout_only_moves_the_normaliser() -> None:
    silent = TokenRollout((7, 8), tuple(TokenCompletion((3, 4, 5, EOS), 0.0) for _ in range(4)))
    learner = learner_with(build())
    before, after = learner.gradients(round_of()), learner.gradients([*round_of(), silent])
    num_tokens = sum(len(c.ids) for r in round_of() for c in r.completions)
    scale = num_tokens / (num_tokens + 16)
    assert after[0] == pytest.approx(before[0] * scale, rel=1e-6)
    assert worst_difference(after[1], {name: value * scale for name, value in before[1].items()}) < 1e-5


@pytest.mark.parametrize("tokens", [1, 9, 33])
def test_micro_batches_do_not_matter(tokens: int) -> None:
    whole, split = (learner_with(build(), micro_batch_tokens=num) for num in (4096, tokens))
    assert worst_difference(split.gradients(round_of())[1], whole.gradients(round_of())[1]) < 1e-5


def test_rollouts_do_not_see_each_other() -> None:
    learner = learner_with(build(), aggregation="dr_grpo", tokens_max=12)
    together = learner.log_probs(round_of())
    apart = [learner.log_probs([r])[0] for r in round_of()]
    for one, other in zip(together, apart, strict=True):
        assert [pytest.approx(logps, abs=1e-5) for logps in other] == one


def test_the_reward_rises_on_a_bandit() -> None:
    """Two prompts, one right token each, then EOS. Sampled on-policy, rewarded by the first token alone."""
    model, rng = build(initializer_range=0.02), random.Random(0)
    learner = learner_with(model, learning_rate=1e-2)
    right = {5: range(1, 40), 9: range(40, 80)}

    def play() -> tuple[list[TokenRollout], float]:
        rollouts, total = [], 0.0
        for prompt, answers in right.items():
            with torch.no_grad():
                chances = model(torch.tensor([[prompt]])).logits[0, -1].softmax(-1).tolist()
            tokens = rng.choices(range(len(chances)), chances, k=16)
            rewards = [float(token in answers) for token in tokens]
            mean = sum(rewards) / len(rewards)
            completions = (TokenCompletion((t, EOS), r - mean) for t, r in zip(tokens, rewards, strict=True))
            rollouts.append(TokenRollout((prompt,), tuple(completions)))
            total += mean / len(right)
        return rollouts, total

    rewards = []
    for _ in range(50):
        rollouts, reward = play()
        rewards.append(reward)
        learner.update(rollouts)
    assert sum(rewards[:5]) / 5 < 0.35
    assert sum(rewards[-5:]) / 5 > 0.9
