"""Packages of a GPU box: which build of vLLM is there, and what is lost without each."""

import importlib.util
from importlib.metadata import PackageNotFoundError

import pytest

from swarmd.config import Config
from swarmd.errors import ConfigError
from swarmd.node.memory_plan import require_packages
from swarmd.policy.model import packages

ALL = set(packages.WANTED)


def installed(
    monkeypatch: pytest.MonkeyPatch, modules: set[str], vllm_version: str | None = "0.32.1"
) -> None:
    """Only these modules are there; vLLM's distribution has that version, or another name."""

    def version(name: str) -> str:
        if vllm_version is None:
            raise PackageNotFoundError(name)
        return vllm_version

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name in modules else None)
    monkeypatch.setattr(packages, "version", version)


@pytest.mark.parametrize(
    ("modules", "vllm_version", "build"),
    [
        (set(), "0.32.1", ""),
        ({"vllm"}, "0.32.1", "cuda"),
        ({"vllm"}, None, "cpu"),
        ({"vllm"}, "0.32.1+cpu", "cpu"),
    ],
)
def test_a_build_is_known_by_its_distribution(
    monkeypatch: pytest.MonkeyPatch, modules: set[str], vllm_version: str | None, build: str
) -> None:
    installed(monkeypatch, modules, vllm_version)
    assert packages.vllm_build() == build


def test_nothing_is_said_where_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, ALL)
    said = list[str]()
    require_packages(Config(), said.append)
    assert said == []


def test_each_loss_is_said_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, {"pynvml", "vllm"}, None)
    said = list[str]()
    require_packages(Config(), said.append)
    assert [line.split()[3].rstrip(":") for line in said] == ["bitsandbytes", "peft", "vllm"]
    assert all(packages.INSTALL in line for line in said)


def test_a_plan_is_not_guessed_where_nobody_can_ask_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, ALL - {"pynvml"})
    with pytest.raises(ConfigError, match="needs nvidia-ml-py") as caught:
        require_packages(Config(), lambda line: None)
    assert packages.INSTALL in caught.value.fix
    require_packages(Config.model_validate({"policy": {"plan": "lora"}}), lambda line: None)
