"""A model's folder to a live model and its tokeniser, importing from transformers only what that takes."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from swarmd.errors import ModelUnavailable, NoDevice, OutOfMemory
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.model.folder import weight_files
from swarmd.policy.model.header import tensor_shapes
from swarmd.policy.model.tokenise import Tokeniser

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

# Without a limit in its config a model is given this much context; only the cache's memory depends on it.
_CONTEXT_TOKENS_MAX = 32768
# Parameters of a model for each that its weights hold; a library may count shared ones twice.
_PARAMETERS_FACTOR_MAX = 2


def load_tokeniser(path: Path) -> Tokeniser:
    """The tokeniser of a model's folder, with every end token its generation config names.

    Raises:
        ModelUnavailable: it cannot be read, or names no end token.
    """
    from transformers import AutoTokenizer, GenerationConfig

    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        named = (path / "generation_config.json").is_file()
        eos = GenerationConfig.from_pretrained(path, local_files_only=True).eos_token_id if named else None
        eos_ids = eos if isinstance(eos, list) else [eos] if eos is not None else []
        if strange := [one for one in eos_ids if type(one) is not int]:
            raise ValueError(f"the generation config names {strange[0]!r} as an end token")
        return Tokeniser(tokenizer, eos_ids)
    except ModelUnavailable:
        raise
    except Exception as error:  # the tokenizers library raises bare ones, for files that somebody else wrote
        raise ModelUnavailable(f"the tokenizer in {path} cannot be used", str(error)) from error


def load_model(
    path: Path, device: str, *, before_move: "Callable[[PreTrainedModel], object]" = lambda model: None
) -> "PreTrainedModel":
    """The causal language model of a folder on `device`: float32 on a CPU, bfloat16 on an accelerator.

    Where the model is narrower than float32, the learner keeps master weights that are not.

    Args:
        before_move: gets the model while it is on the host, in its type; parameters that it puts on the device stay as they are.

    Raises:
        ModelUnavailable: transformers does not know its kind, a file is damaged, or tensors are missing.
        NoDevice: the device is not there.
        OutOfMemory: it does not fit.
    """
    # Its threads would outnumber the cores we were given.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # stderr is a log file
    check_device(device)
    try:
        _require_room(path)
        model, found = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype_of(device), local_files_only=True, output_loading_info=True
        )
        if lacking := sorted(found["missing_keys"]):
            raise ModelUnavailable(
                f"the model in {path} is not complete",
                f"its weights lack {len(lacking)} of the tensors that its config asks for, first {lacking[0]}",
                "download it again: random numbers would stand in for them",
            )
        before_move(model)
        return model.to(device).eval()
    except ModelUnavailable:
        raise
    except Exception as error:  # whatever a library makes of a config with a word in a number's place
        if not is_out_of_memory(error):
            raise ModelUnavailable(
                f"the model in {path} cannot be loaded",
                f"{type(error).__name__}: {error}",
                "its kind must be known to the installed transformers",
            ) from error
        raise OutOfMemory(
            f"the model in {path} does not fit on {device}",
            str(error).partition("\n")[0],
            "take a smaller model, or free memory",
        ) from error


def _require_room(path: Path) -> None:
    """Refuse a config that asks for far more than the weights hold: transformers makes up what is missing, and fills the memory."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(path, local_files_only=True)
    with torch.device("meta"):  # shapes alone
        wanted = sum(one.numel() for one in AutoModelForCausalLM.from_config(config).parameters())
    held = sum(
        math.prod(shape)
        for file in weight_files(str(path), path)
        for shape in tensor_shapes(str(path), file).values()
    )
    if wanted > _PARAMETERS_FACTOR_MAX * held:
        raise ModelUnavailable(
            f"the model in {path} is not complete",
            f"its config asks for {wanted} parameters, and its weights hold {held}",
            "download it again",
        )


def dtype_of(device: str) -> "torch.dtype":
    """The type a model computes in. bfloat16 is half as fast as float32 on a CPU without matrix units for it."""
    import torch

    return torch.float32 if device == "cpu" else torch.bfloat16


def check_device(device: str) -> None:
    """Raises NoDevice when torch itself cannot use `device`, whatever it looked like from outside."""
    import torch

    kind, _, index = device.partition(":")
    if kind == "cuda" and not (torch.cuda.is_available() and int(index or 0) < torch.cuda.device_count()):
        raise NoDevice(
            f"torch cannot use {device}",
            f"it sees {torch.cuda.device_count()} CUDA devices (torch {torch.__version__})",
            "nvidia-smi shows whether the driver works",
        )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise NoDevice("torch cannot use mps", f"torch {torch.__version__}")


def context_tokens_max(config: "PretrainedConfig") -> int:
    """The most tokens of prompt and completion together."""
    return int(getattr(config.get_text_config(), "max_position_embeddings", None) or _CONTEXT_TOKENS_MAX)
