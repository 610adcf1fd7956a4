"""No test of this room uses a network, whatever the environment says."""

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tests.policy.folders import build_folder


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with a chat template; tests must not write into it."""
    return build_folder(tmp_path_factory.mktemp("models") / "chat")


@pytest.fixture(scope="session")
def other_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A larger one with another tokenizer and plain prompts."""
    path = tmp_path_factory.mktemp("models") / "plain"
    return build_folder(path, hidden=48, layers=3, vocab_size=340, chat=False, seed=1)
