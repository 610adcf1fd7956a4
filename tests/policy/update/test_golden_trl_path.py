"""The whole gradient against TRL's real path, from padded rows to every parameter, on the rollouts of the benchmark."""

import pytest
import torch

from tests.bench.update_work import Work, build_model, build_round
from tests.policy.settings import learner_with

pytest.importorskip("trl", minversion="1.16", reason="TRL comes with the dev extra")
SMALL = Work(prompts=(3, 9), completion_median=6, completion_min=2, completion_max=12, informative=2)


@pytest.mark.parametrize("micro_batch", [2, 12])
@pytest.mark.parametrize("altered", [False, True])
def test_the_gradient_is_trls(micro_batch: int, altered: bool) -> None:
    from tests.bench.trl_update import TrlOptions, TrlUpdate

    rollouts = build_round(SMALL, 1024, questions=3, completions=4)
    theirs = TrlUpdate(build_model("0.9M"), TrlOptions(micro_batch, altered=altered))
    theirs.backward(rollouts)
    _, ours = learner_with(build_model("0.9M")).gradients(rollouts)
    wanted = theirs.gradients()
    assert ours.keys() == wanted.keys()
    one, other = (torch.cat([found[name].flatten() for name in wanted]) for found in (ours, wanted))
    assert (one - other).norm() < 1e-5 * other.norm()
