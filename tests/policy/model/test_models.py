"""From a name to a model: every refusal comes before a download and says what to do."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swarmd.errors import ModelUnavailable, NoDevice
from swarmd.policy.model.loading import load_model, load_tokeniser
from swarmd.policy.model.resolve import ALIASES, resolve_model


@pytest.fixture
def folder(model_dir: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(model_dir, tmp_path / "model"))


def edit(folder: Path, file: str, **changes: Any) -> None:
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **changes}))


def test_a_folder_is_described_without_loading_it(model_dir: Path) -> None:
    model = resolve_model(str(model_dir))
    assert (model.kind, model.path, model.architecture) == ("folder", model_dir, "Qwen2ForCausalLM")
    assert model.has_chat_template
    assert model.num_parameters == load_model(model_dir, "cpu").num_parameters()


def test_tiny_is_embedded() -> None:
    model = resolve_model("tiny")
    assert model.kind == "tiny"
    assert model.num_parameters is not None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Qwen2.5-0.5", "did you mean Qwen2.5-0.5B?"),
        ("qwen3-06b", "did you mean Qwen3-0.6B?"),
        ("tinny", "did you mean tiny?"),
        ("zzzzzz", "known names: tiny, Qwen2.5-0.5B"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        resolve_model(name)
    assert hint in caught.value.fix
    assert caught.value.exit_code == 13


@pytest.mark.parametrize(
    "name", ["a/b/c", "../x/y", "org/", "/absent/folder", "~/absent-folder", "", "a b/c"]
)
def test_what_is_neither_name_nor_folder_nor_repository_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable):
        resolve_model(name)


@pytest.mark.parametrize("name", ["Qwen2.5-0.5B", "qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B-Instruct"])
def test_a_hub_model_that_is_not_cached_is_named_by_its_full_id(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    with pytest.raises(ModelUnavailable, match=r"Qwen/Qwen2\.5-0\.5B-Instruct is not in"):
        resolve_model(name)


def test_every_alias_is_a_repository_id() -> None:
    assert all(repo_id.count("/") == 1 for repo_id in ALIASES.values())


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "not a Hugging Face model folder"),
        ("tokenizer.json", "has no tokenizer"),
        ("model.safetensors", "holds no weights"),
    ],
)
def test_an_incomplete_folder_is_told_what_it_lacks(folder: Path, missing: str, message: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelUnavailable, match=message):
        resolve_model(str(folder))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["BertModel"]}, "BertModel"),
        ({"architectures": None}, "unknown"),
        ({"architectures": ["Qwen2_5_VLForConditionalGeneration"]}, "causal language"),
        ({"is_encoder_decoder": True}, "causal language"),
        ({"auto_map": {"AutoModel": "x.py"}}, "code from its own repository"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
    ],
)
def test_what_cannot_be_trained_is_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    edit(folder, "config.json", **changes)
    with pytest.raises(ModelUnavailable, match=message):
        resolve_model(str(folder))


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_an_unreadable_config_is_named(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(ModelUnavailable, match=r"config\.json"):
        resolve_model(str(folder))


def test_pickled_weights_are_never_loaded(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match="pickled"):
        resolve_model(str(folder))


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\x02" + b"\0" * 7 + b"{]", b"\x02" + b"\0" * 7 + b"{}"])
def test_damaged_weights_are_noticed_by_their_header(folder: Path, data: bytes) -> None:
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors"):
        resolve_model(str(folder))


def test_a_truncated_file_is_noticed(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-1])
    with pytest.raises(ModelUnavailable, match="not whole"):
        resolve_model(str(folder))


def test_a_missing_shard_is_noticed(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "model-1.safetensors")
    (folder / "model.safetensors").unlink()
    weight_map = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelUnavailable, match="lacks 1 of 2 weight files"):
        resolve_model(str(folder))


def test_a_kind_unknown_to_transformers_is_told_at_loading(folder: Path) -> None:
    edit(folder, "config.json", model_type="marvel", architectures=["MarvelForCausalLM"])
    with pytest.raises(ModelUnavailable, match="marvel"):
        load_model(folder, "cpu")


def test_a_device_that_torch_does_not_have_is_told_at_loading(folder: Path) -> None:
    with pytest.raises(NoDevice, match="cuda:99"):
        load_model(folder, "cuda:99")


def test_a_tokenizer_without_an_end_is_told_at_loading(folder: Path) -> None:
    edit(folder, "tokenizer_config.json", eos_token=None)
    (folder / "generation_config.json").unlink()
    with pytest.raises(ModelUnavailable, match="end-of-sequence"):
        load_tokeniser(folder)


def test_resolving_loads_no_torch(model_dir: Path) -> None:
    code = (
        "import sys; from swarmd.policy.model.resolve import resolve_model, resolve_device, download_model\n"
        f"resolve_model({str(model_dir)!r}); resolve_device('cpu', 'x')\n"
        "assert not {'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
