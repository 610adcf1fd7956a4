"""No test of this room uses a network, whatever the environment says."""

import os
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from swarmd.policy.update import learner
from swarmd.policy.update.passes import Trained
from swarmd.policy.update.self_check import SelfCheck, check_packed_pass
from tests.policy.folders import build_folder

_PASSED: dict[tuple[object, ...], SelfCheck] = {}


@pytest.fixture(autouse=True)
def one_self_check_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner's self-check takes longer than an update of a small model: one that passed stands for all models of that shape.

    A test that expects a refusal of a shape that passed before fails, and so cannot be deceived: `own_self_check` is for it.
    """

    def check(trained: Trained, *args: Any) -> SelfCheck:
        model = trained.model
        key = (type(model), model.config.to_json_string(), model.dtype, trained.how)
        if key not in _PASSED:
            found = check_packed_pass(trained, *args)
            if not found.passed:
                return found
            _PASSED[key] = found
        return _PASSED[key]

    monkeypatch.setattr(learner, "check_packed_pass", check)


@pytest.fixture
def own_self_check(monkeypatch: pytest.MonkeyPatch, one_self_check_a_shape: None) -> None:
    monkeypatch.setattr(learner, "check_packed_pass", check_packed_pass)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with a chat template; tests must not write into it."""
    return build_folder(tmp_path_factory.mktemp("models") / "chat")


@pytest.fixture(scope="session")
def other_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A larger one with another tokenizer and plain prompts."""
    path = tmp_path_factory.mktemp("models") / "plain"
    return build_folder(path, hidden=48, layers=3, vocab_size=340, chat=False, seed=1)
