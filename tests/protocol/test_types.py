"""Values that exist are good: strictness, bounds and immutability of the models."""

import pytest
from pydantic import ValidationError

from swarmd.protocol.types import Completion, Header, Rollout, RolloutBatch
from tests.protocol.craft import plain_header


@pytest.mark.parametrize(
    "changes",
    [
        {"text": b"x"},
        {"text": "\ud800"},
        {"text": "x" * 65_537},
        {"finished": 1},
        {"finished": "true"},
        {"logprob_sum": float("nan")},
        {"logprob_sum": float("inf")},
        {"logprob_sum": True},
        {"num_tokens": True},
        {"num_tokens": 1.0},
        {"num_tokens": -1},
        {"reward": 1.0},
    ],
)
def test_no_bad_completion_can_be_made(changes):
    with pytest.raises(ValidationError):
        Completion(**({"text": "x", "finished": True} | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"counter": True},
        {"counter": -1},
        {"counter": 2**53},
        {"dataset": 1024},
        {"completions": []},
        {"seed": 1},
    ],
)
def test_no_bad_rollout_can_be_made(changes):
    with pytest.raises(ValidationError):
        Rollout(**({"dataset": 0, "counter": 0, "completions": ()} | changes))


def test_values_cannot_be_changed():
    batch = RolloutBatch(rollouts=())
    with pytest.raises(ValidationError):
        batch.rollouts = ()


def test_a_header_says_by_default_that_it_names_no_swarm():
    assert Header(**plain_header(b"x", swarm=...)).swarm == b""
