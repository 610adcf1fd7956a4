"""Which device a model runs on; imports no torch, so the daemon can ask before it starts a child.

The CPU is taken only when it is asked for, or with the tiny model: a language model that silently trains a hundred times slower
than its owner thinks is worse than an error.
"""

import importlib.util
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from swarmd.errors import ConfigError, NoDevice
from swarmd.policy.plans.room import CannotAsk, nvml_card

DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True)
class Machine:
    """This machine's accelerators, as far as they show without torch.

    Attributes:
        has_nvidia_device: the kernel shows one.
        driver: the loaded NVIDIA kernel module's version, or empty.
        torch_cuda: the CUDA version torch was built for, or empty for a CPU build.
        capability: the card's compute capability, None where nobody tells.
        visible_devices: the value of CUDA_VISIBLE_DEVICES, None when unset.
        in_container: whether this is a container, where devices have to be passed in.
        is_apple_silicon: Apple's GPU.
    """

    has_nvidia_device: bool
    driver: str
    torch_cuda: str
    visible_devices: str | None
    in_container: bool
    is_apple_silicon: bool
    capability: tuple[int, int] | None = None


# The oldest driver for each CUDA release (docs.nvidia.com/cuda/cuda-toolkit-release-notes, "minor version compatibility").
DRIVER_MIN = {"11": 450, "12": 525, "13": 580}
# Cards before it have no bfloat16: the model would run in a precision without kernels for it.
CAPABILITY_MIN = (8, 0)


def resolve_device(requested: str, model: str, *, machine: Machine | None = None) -> str:
    """`cpu`, `cuda`, `cuda:N` or `mps`: the one requested, or for `auto` what `machine` (this one) has. `tiny` runs anywhere.

    Raises:
        ConfigError: no such device name.
        NoDevice: what was asked for, or for `auto` any accelerator, is not usable; the message says why and three ways on.
    """
    if requested not in DEVICES and not re.fullmatch(r"cuda:\d{1,2}", requested):
        raise ConfigError(
            f"unknown device {requested!r}", fix=f"policy.device is one of {', '.join(DEVICES)}"
        )
    if requested == "cpu":
        return "cpu"
    machine = machine or look()
    if requested == "mps" or (requested == "auto" and machine.is_apple_silicon):
        if machine.is_apple_silicon:
            return "mps"
        raise _no_device("this machine has no Apple GPU", "mps exists on Apple silicon only")
    reason = _cuda_trouble(machine)
    if not reason:
        return "cuda" if requested == "auto" else requested
    if requested == "auto" and model == "tiny":
        return "cpu"
    raise _no_device("no usable GPU", reason)


def look() -> Machine:
    """This machine."""
    return Machine(
        has_nvidia_device=any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists(),
        driver=_driver_version(),
        torch_cuda=_torch_cuda(),
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        in_container=Path("/.dockerenv").exists() or "container" in os.environ,
        is_apple_silicon=platform.system() == "Darwin" and platform.machine() == "arm64",
        capability=capability(),
    )


def _cuda_trouble(machine: Machine) -> str:
    """Why CUDA cannot be used; empty when nothing speaks against it."""
    if not machine.has_nvidia_device:
        if machine.driver:
            return f"the NVIDIA driver {machine.driver} is loaded but there is no /dev/nvidia0; " + (
                "start the container with --gpus all" if machine.in_container else "run nvidia-modprobe -u"
            )
        if machine.in_container:
            return "there is no NVIDIA device in this container; start it with --gpus all (NVIDIA container toolkit)"
        return "there is no NVIDIA device"
    if not machine.torch_cuda:
        return "there is a GPU, but the installed torch is a CPU build: install the CUDA build of the same version"
    driver, needed = machine.driver.partition(".")[0], DRIVER_MIN.get(machine.torch_cuda.partition(".")[0], 0)
    if driver.isdigit() and int(driver) < needed:
        return (
            f"the NVIDIA driver {machine.driver} is too old: the installed torch is built for CUDA {machine.torch_cuda}, which "
            f"needs driver {needed} or later; install a newer driver"
        )
    if machine.capability is not None and machine.capability < CAPABILITY_MIN:
        return (
            f"the card has compute capability {machine.capability[0]}.{machine.capability[1]}, and bfloat16 needs "
            f"{CAPABILITY_MIN[0]}.{CAPABILITY_MIN[1]} or later (GeForce RTX 30, A100 and newer)"
        )
    if machine.visible_devices is not None and machine.visible_devices.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={machine.visible_devices!r} hides every GPU"
    return ""


def _no_device(what: str, why: str) -> NoDevice:
    return NoDevice(
        what,
        why,
        "to try it out: swarmd start --device cpu --model tiny; to train this model anyway, very slowly: --device cpu; "
        "to look for the cause: nvidia-smi",
    )


def capability(nvml: ModuleType | None = None) -> tuple[int, int] | None:
    """The compute capability of the first card that CUDA sees, as NVML tells it; None where it cannot be asked."""
    try:
        with nvml_card(0, nvml) as (found, card):
            major, minor = found.nvmlDeviceGetCudaComputeCapability(card)
    except CannotAsk:
        return None
    return major, minor


def _driver_version() -> str:
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return ""


def _torch_cuda() -> str:
    """Read from torch's own version file: importing torch takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    try:
        text = Path(spec.origin).with_name("version.py").read_text()
    except OSError:
        return ""
    found = re.search(r"^cuda[^=\n]*= *'([^']+)'", text, re.MULTILINE)
    return found[1] if found else ""
