"""A swarm with every guard on: real loops, a real policy, real buffers. A node whose canary fell goes back and on."""

from pathlib import Path

import pytest

from swarmd.loops.canary.measure import Finding, Measure
from swarmd.loops.canary.memory import Fall, Memory
from tests.experiment.swarms.test_simulation import cell, records, run, untimed

GUARDS = {
    "update.external_logp_min": "auto",
    "update.external_weight_max": "2",
    "update.external_share_max": "0.9",
    "trust.unproven_share_max": "0.1",
    "trust.author_parts_max": "1.5",
    "trust.proven_rollouts": "4",
    "trust.quotas": "off",
    "trust.canary": "on",
    "trust.canary_rounds": "2",
    "trust.canary_questions": "8",
    "update.learning_rate": "1e-3",
}


@pytest.fixture
def fallen_at_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both nodes' canaries say after round 4 that the policy fell, and that others had a part in it."""
    once = Measure.once

    async def fallen(self: Measure, best: tuple[float, ...], *, round: int) -> Finding:
        found = await once(self, best, round=round)
        return Finding("fallen", found.scores, Fall(0.5, 0.01)) if round == 4 else found

    monkeypatch.setattr(Measure, "once", fallen)
    # in so few rounds hardly an external rollout is informative
    monkeypatch.setattr(Memory, "can_roll_back", property(lambda memory: memory.good_round is not None))


def test_a_guarded_swarm_repeats_to_the_last_bit(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(cell(rounds=4, **GUARDS), tmp_path / name)
    first, second = (untimed(records(tmp_path / name, 0)) for name in ("one", "two"))
    assert first == second
    assert [record["round"] for record in first] == [1, 2, 3, 4]
    assert all(record["num_unproven"] <= 1 for record in first)


def test_a_node_whose_canary_fell_goes_back_and_learns_on(tmp_path: Path, fallen_at_four: None) -> None:
    done = run(cell(rounds=7, **GUARDS), tmp_path)
    assert done.status == "done"
    for number in (0, 1):
        rounds = records(tmp_path, number)
        assert [record["round"] for record in rounds] == [1, 2, 3, 4, 6, 7]
        versions = [record["policy_version"] for record in rounds]
        assert versions == sorted(versions)
        assert versions[4] > versions[3]  # the way back is a version, too
