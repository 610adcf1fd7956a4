"""Which device a model gets: never the CPU by surprise, and a reason for every refusal."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from swarmd.errors import ConfigError, NoDevice
from swarmd.policy.model.devices import Machine, capability, resolve_device
from tests.policy.plans.test_room import FakeNvml

BARE = Machine(
    has_nvidia_device=False,
    driver="",
    torch_cuda="",
    visible_devices=None,
    in_container=False,
    is_apple_silicon=False,
)
GPU = replace(BARE, has_nvidia_device=True, driver="580.65", torch_cuda="13.0")
APPLE = replace(BARE, is_apple_silicon=True)
MODEL = "Qwen2.5-0.5B"


@pytest.mark.parametrize(
    ("requested", "model", "machine", "wanted"),
    [
        ("auto", MODEL, GPU, "cuda"),
        ("cuda", MODEL, GPU, "cuda"),
        ("cuda:1", MODEL, GPU, "cuda:1"),
        ("auto", MODEL, APPLE, "mps"),
        ("cpu", MODEL, BARE, "cpu"),
        ("cpu", MODEL, GPU, "cpu"),
        ("auto", "tiny", BARE, "cpu"),
        ("auto", "tiny", GPU, "cuda"),
        ("auto", MODEL, replace(GPU, driver="535.10", torch_cuda="12.8"), "cuda"),
        ("auto", MODEL, replace(GPU, capability=(8, 6)), "cuda"),
        ("auto", MODEL, replace(GPU, driver="", capability=(12, 0)), "cuda"),
    ],
)
def test_a_usable_device_is_taken(requested: str, model: str, machine: Machine, wanted: str) -> None:
    assert resolve_device(requested, model, machine=machine) == wanted


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (BARE, "there is no NVIDIA device"),
        (replace(BARE, in_container=True), "--gpus all"),
        (replace(BARE, driver="580.65"), "nvidia-modprobe"),
        (replace(GPU, torch_cuda=""), "CPU build"),
        (
            replace(GPU, driver="575.51.03"),
            "driver 575.51.03 is too old: the installed torch is built for CUDA 13.0, which needs driver 580",
        ),
        (replace(GPU, driver="520.1", torch_cuda="12.8"), "needs driver 525"),
        (replace(GPU, capability=(7, 5)), "compute capability 7.5, and bfloat16 needs 8.0"),
        (replace(GPU, visible_devices=""), "CUDA_VISIBLE_DEVICES"),
        (replace(GPU, visible_devices="-1"), "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_without_a_gpu_the_reason_is_named_and_three_ways_on(machine: Machine, reason: str) -> None:
    with pytest.raises(NoDevice) as caught:
        resolve_device("auto", MODEL, machine=machine)
    assert reason in caught.value.why
    assert all(way in caught.value.fix for way in ("--model tiny", "--device cpu", "nvidia-smi"))
    assert caught.value.exit_code == 12


@pytest.mark.parametrize(("requested", "machine"), [("cuda", BARE), ("cuda:0", APPLE), ("mps", GPU)])
def test_a_device_asked_for_by_name_is_not_replaced_even_for_the_tiny_model(
    requested: str, machine: Machine
) -> None:
    with pytest.raises(NoDevice):
        resolve_device(requested, "tiny", machine=machine)


@pytest.mark.parametrize("requested", ["gpu", "cuda:x", "cuda:", ""])
def test_an_unknown_device_is_the_operators_error(requested: str) -> None:
    with pytest.raises(ConfigError, match="unknown device"):
        resolve_device(requested, MODEL, machine=BARE)


def test_looking_at_the_machine_loads_no_torch_and_agrees_with_it() -> None:
    code = "import sys; from swarmd.policy.model.devices import look; print(look().torch_cuda); assert 'torch' not in sys.modules"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == (torch.version.cuda or "")


class Card(FakeNvml):
    """A card that tells its compute capability."""

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        if self.error:
            raise self.NVMLError(self.error)
        return 8, 6


def test_nvml_tells_the_compute_capability_and_is_let_go() -> None:
    nvml: Any = Card()
    assert capability(nvml) == (8, 6)
    assert not nvml.is_open


def test_a_card_that_cannot_be_asked_has_no_known_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: Any = Card("Driver/library version mismatch")
    assert capability(broken) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert capability() is None
