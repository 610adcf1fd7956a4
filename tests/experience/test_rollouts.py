"""Scored rollouts survive the trip to a child process, and refuse what is not one."""

import dataclasses

import pytest

from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.processes.frames import FrameReader, encode_frame

OWN = ScoredCompletion("<answer>4</answer>", True, 1.0, token_ids=(5, 6, 7), logprob_sum=-1.5, num_tokens=3)
MEASURED = dataclasses.replace(OWN, token_logps=(-0.5, -0.25, -0.75))
CUT = ScoredCompletion("é…", False, 0.0)
ROLLOUT = ScoredRollout(b"a" * 32, 2, 41, "2 + 2?", (OWN, CUT, MEASURED), 1_700_000_000_000, 7, False)


def test_a_rollout_survives_a_frame_unchanged() -> None:
    assert FrameReader(ScoredRollout).feed(encode_frame(ROLLOUT)) == [ROLLOUT]


def test_rewards_stand_in_the_order_of_completions() -> None:
    assert ROLLOUT.rewards_G == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(("rewards_G", "expected"), [([1.0, 0.0], True), ([1.0, 1.0], False), ([0.0], False)])
def test_informative_follows_the_rewards(rewards_G: list[float], expected: bool) -> None:
    completions = tuple(dataclasses.replace(OWN, reward=reward) for reward in rewards_G)
    assert dataclasses.replace(ROLLOUT, completions=completions).informative is expected


def test_a_rollout_without_completions_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        dataclasses.replace(ROLLOUT, completions=())
