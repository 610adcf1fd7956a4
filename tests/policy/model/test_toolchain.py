"""What Triton needs of a GPU box: a compiler and Python's headers, and how each distribution installs them."""

import sys
from pathlib import Path

import pytest

from swarmd.config import Config
from swarmd.node import memory_plan
from swarmd.policy.model import toolchain
from swarmd.policy.model.toolchain import Which, toolchain_trouble

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def programs(*names: str) -> Which:
    return lambda name: f"/usr/bin/{name}" if name in names else None


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    (tmp_path / "Python.h").touch()
    return tmp_path


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_either_compiler_and_the_headers_will_do(headers: Path, compiler: str) -> None:
    assert toolchain_trouble(environ={}, which=programs(compiler), include=headers) == ("", "")


def test_a_compiler_that_the_environment_names_must_be_there(headers: Path) -> None:
    named = {"CC": "icc"}
    assert toolchain_trouble(environ=named, which=programs("icc"), include=headers) == ("", "")
    what, _ = toolchain_trouble(environ=named, which=programs("gcc"), include=headers)
    assert what == "the C compiler icc (CC)"


@pytest.mark.parametrize(
    ("manager", "fix"),
    [
        ("apt-get", f"apt install gcc python{PYTHON}-dev"),
        ("dnf", "dnf install gcc python3-devel"),
        ("pacman", "pacman -S gcc python"),
        ("none", f"install gcc and the headers of Python {PYTHON}"),
    ],
)
def test_the_fix_is_the_distributions(tmp_path: Path, manager: str, fix: str) -> None:
    what, found = toolchain_trouble(environ={}, which=programs(manager), include=tmp_path)
    assert what == f"a C compiler and {tmp_path / 'Python.h'}"
    assert found == fix


def test_only_what_is_missing_is_named(tmp_path: Path, headers: Path) -> None:
    assert toolchain_trouble(environ={}, which=programs("apt-get"), include=headers) == (
        "a C compiler",
        "apt install gcc",
    )
    what, fix = toolchain_trouble(environ={}, which=programs("gcc", "apt-get"), include=tmp_path / "none")
    assert what == str(tmp_path / "none" / "Python.h")
    assert fix.endswith(f"python{PYTHON}-dev")


def test_this_pythons_own_headers_are_looked_for_where_they_are() -> None:
    assert toolchain._include().name == f"python{PYTHON}"


@pytest.mark.parametrize(
    ("engine", "device", "build", "said"),
    [
        ("auto", "cuda", "cuda", True),
        ("vllm", "cuda:0", "cuda", True),
        ("auto", "cuda", "cpu", False),
        ("auto", "cuda:1", "cuda", False),
        ("transformers", "cuda", "cuda", False),
        ("vllm", "cpu", "cpu", False),
    ],
)
def test_it_is_said_where_vllm_would_generate_on_cuda(
    monkeypatch: pytest.MonkeyPatch, engine: str, device: str, build: str, said: bool
) -> None:
    monkeypatch.setattr(memory_plan, "vllm_build", lambda: build)
    monkeypatch.setattr(memory_plan, "toolchain_trouble", lambda: ("a C compiler", "apt install gcc"))
    lines = list[str]()
    memory_plan.say_toolchain(Config.model_validate({"policy": {"engine": engine}}), device, lines.append)
    assert lines == (
        ["! compiler   vLLM will not start without a C compiler; apt install gcc"] if said else []
    )
