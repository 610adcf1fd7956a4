"""Exporting a stopped node's newest checkpoint, without loading the model."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from swarmd.errors import ModelUnavailable, StateError
from swarmd.policy.model.folder import ResolvedModel, read_folder
from swarmd.policy.state.export import _card, export_checkpoint
from tests.policy.services import own_rollout, started


@pytest.fixture
def model(model_dir: Path) -> ResolvedModel:
    return read_folder("random", model_dir)


@pytest.fixture
def checkpoints(model_dir: Path, tmp_path: Path) -> Path:
    policy = started(model_dir, checkpoints=tmp_path / "checkpoints")
    for number in (1, 2):
        policy.update([own_rollout(policy, "one?")], round=number, state={}, save="now")
    return tmp_path / "checkpoints"


def test_the_newest_checkpoint_becomes_a_folder_that_starts_a_policy(
    checkpoints: Path, model: ResolvedModel, tmp_path: Path, model_dir: Path
) -> None:
    assert export_checkpoint(checkpoints, model, tmp_path / "out") == "round-00000002"
    exported, resumed = started(tmp_path / "out"), started(model_dir, checkpoints=checkpoints)
    question = ["one and two?"], 3, 1.0, 8, 4
    assert exported.generate(*question).completions_RG == resumed.generate(*question).completions_RG
    assert "| policy updates | 2 |" in (tmp_path / "out" / "README.md").read_text()


def test_an_export_is_a_folder_that_others_can_load(
    checkpoints: Path, model: ResolvedModel, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    export_checkpoint(checkpoints, model, tmp_path / "out")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    saved = load_file(checkpoints / "round-00000002" / "model.safetensors")
    assert all(loaded.state_dict()[name].equal(tensor) for name, tensor in saved.items())
    assert loaded.generation_config.eos_token_id == [2, 0]
    assert AutoTokenizer.from_pretrained(tmp_path / "out").chat_template


def test_a_damaged_newest_checkpoint_is_not_exported(
    checkpoints: Path, model: ResolvedModel, tmp_path: Path
) -> None:
    (checkpoints / "round-00000002" / "model.safetensors").write_bytes(b"")
    assert export_checkpoint(checkpoints, model, tmp_path / "out") == "round-00000001"


def test_without_a_checkpoint_there_is_nothing_to_export(model: ResolvedModel, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no checkpoint"):
        export_checkpoint(tmp_path / "none", model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_models_checkpoint_is_refused_with_its_name(
    checkpoints: Path, model: ResolvedModel, tmp_path: Path
) -> None:
    with pytest.raises(StateError, match="--model random"):
        export_checkpoint(checkpoints, replace(model, name="other"), tmp_path / "out")


def test_a_model_that_is_not_here_cannot_give_its_tokenizer(
    checkpoints: Path, model: ResolvedModel, tmp_path: Path
) -> None:
    with pytest.raises(ModelUnavailable, match="not in the local cache"):
        export_checkpoint(checkpoints, replace(model, path=None), tmp_path / "out")


def test_a_folder_with_something_in_it_is_left_alone(
    checkpoints: Path, model: ResolvedModel, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    with pytest.raises(StateError, match="not empty"):
        export_checkpoint(checkpoints, model, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_the_card_names_a_hub_model_as_its_base() -> None:
    assert "base_model: Qwen/Qwen3-0.6B\n" in _card("Qwen/Qwen3-0.6B", 1, 1)
    assert "base_model" not in _card("tiny", 1, 1)
    assert "base_model" not in _card("/models/mine", 1, 1)


def test_exporting_loads_no_torch(checkpoints: Path, model_dir: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from swarmd.policy.state.export import export_checkpoint; from swarmd.policy.model.folder import read_folder\n"
        f"export_checkpoint(Path({str(checkpoints)!r}), read_folder('random', Path({str(model_dir)!r})),"
        f" Path({str(tmp_path / 'out')!r}))\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
