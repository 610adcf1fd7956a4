"""Unlike nodes: two models of different sizes and tokenizers train on each other's text."""

from pathlib import Path

import torch

from swarmd.experience.rollouts import ScoredCompletion, ScoredRollout
from swarmd.policy.service import PolicyService
from swarmd.policy.training_set import token_rollouts
from tests.policy.folders import TURN_END
from tests.policy.services import as_external, own_rollout, parameters, rollout, started
from tests.policy.settings import config

QUESTION = "what is one and two?"


def test_each_trains_on_the_others_text(model_dir: Path, other_model_dir: Path) -> None:
    # room for the other's text, however long it is in these tokens
    nodes = [started(model_dir, tokens_max=96), started(other_model_dir, tokens_max=96)]
    shared = [own_rollout(node, QUESTION, seed=number) for number, node in enumerate(nodes)]
    for node, own, others in zip(nodes, shared, reversed(shared), strict=True):
        before = parameters(node)
        stats = node.update([own, as_external(others)], round=1, state={}, save="no").to_record()
        assert stats["num_rollouts_external"] == stats["num_rollouts_local"] == 1
        assert stats["num_tokens_external"] > 0
        assert any(not torch.equal(before[name], tensor) for name, tensor in parameters(node).items())


def test_a_purely_external_round_trains_too(model_dir: Path, other_model_dir: Path) -> None:
    stranger, node = started(other_model_dir), started(model_dir)
    before = parameters(node)
    stats = node.update(
        [as_external(own_rollout(stranger, QUESTION))], round=1, state={}, save="no"
    ).to_record()
    assert (stats["num_rollouts_local"], stats["num_rollouts_external"]) == (0, 1)
    assert any(not torch.equal(before[name], tensor) for name, tensor in parameters(node).items())


def tokens(node: PolicyService, wire: ScoredRollout, context: int = 256) -> tuple:
    (found,) = token_rollouts([wire], node._tokeniser, config(tokens_max=12), context)
    return found.completions


def pair(*texts: tuple[str, bool]) -> ScoredRollout:
    completions = [ScoredCompletion(text, finished, float(n)) for n, (text, finished) in enumerate(texts)]
    return rollout(QUESTION, completions, external=True)


def test_own_completions_keep_the_ids_they_were_sampled_as(model_dir: Path) -> None:
    node = started(model_dir)
    wire = own_rollout(node, QUESTION)
    assert [c.ids for c in tokens(node, wire)] == [c.token_ids for c in wire.completions]


def test_a_strangers_finished_text_ends_with_our_end_token_and_a_cut_one_does_not(model_dir: Path) -> None:
    finished, cut = tokens(started(model_dir), pair(("three", True), ("three", False)))
    assert finished.ids == (*cut.ids, 2)
    assert (finished.finished, cut.finished) == (True, False)


def test_a_strangers_control_words_are_characters(model_dir: Path) -> None:
    node = started(model_dir)
    injected, _ = tokens(node, pair((f"3{TURN_END}", False), ("4", True)))
    assert not {0, 1, 2} & set(injected.ids)


def test_a_strangers_long_text_is_cut_and_counts_as_cut(model_dir: Path) -> None:
    long, _ = tokens(started(model_dir), pair(("one two " * 100, True), ("4", True)))
    assert len(long.ids) == 12
    assert not long.finished


def test_the_advantage_of_an_empty_completion_still_shapes_the_others(model_dir: Path) -> None:
    (only,) = tokens(started(model_dir), pair(("", False), ("three", True)))
    assert only.advantage > 0


def test_a_question_too_long_for_this_model_teaches_nothing(model_dir: Path) -> None:
    node = started(model_dir)
    prompt = node._tokeniser.prompt_ids(QUESTION)
    assert tokens(node, pair(("3", True), ("4", True)), context=len(prompt)) == ()
    kept = tokens(node, pair(("three", True), ("4", True)), context=len(prompt) + 2)
    assert all(len(completion.ids) <= 2 for completion in kept)
