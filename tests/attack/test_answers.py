"""An attacker's right answers are right, and its harmful rollouts are informative."""

from pathlib import Path

import pytest

from swarmd.protocol.signing import Identity
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.scorers import score
from tests.attack.deeds import content
from tests.attack.ground import write_manifest
from tests.attack.ring import Ring

KINDS = [content._inverted, content._garbage_right, content._near_misses, content._behind_the_cut]


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    manifest = write_manifest(tmp_path / "attacked.toml")
    return Ring("harmful", 0, manifest, [], tmp_path, 1)


@pytest.mark.parametrize("texts_of", KINDS)
def test_a_harmful_rollout_earns_some_reward_and_not_all(ring: Ring, texts_of: object) -> None:
    # given
    author = Identity.from_seed(ring.identity_seed(0)).public_key
    solved = next(ring.answers.of(author, [0]))
    spec = ring.manifest.datasets[0]
    source = QuestionSource(DatasetChoice(spec.name, dict(spec.params), spec.reward))
    item = source.item(ring.manifest.question_seed(author, 0, solved.counter))
    # when
    rewards = [
        score(text, item, source, ring.manifest.answer_format).reward for text in texts_of(ring, solved)
    ]  # type: ignore[operator]
    # then
    assert 0 < sum(rewards) < len(rewards)


def test_the_attacked_swarm_has_the_datasets_whose_scorers_ran_code(ring: Ring) -> None:
    assert ring.dataset("binary_matrix") is not None
    assert ring.dataset("chain_sum") == 0


def test_two_attacks_have_no_identity_in_common(tmp_path: Path, ring: Ring) -> None:
    other = Ring("bombs", 0, ring.manifest, [], tmp_path, 1)
    assert not {ring.identity_seed(n) for n in range(5)} & {other.identity_seed(n) for n in range(5)}
