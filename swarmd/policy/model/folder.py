"""What a model's folder says about itself, read without torch: enough to refuse it before anything is loaded or downloaded."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from swarmd.errors import ModelUnavailable

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
INDEX_FILE = "model.safetensors.index.json"
# A header of a sharded 7B model is about 40 KB; the format allows 100 MB.
_HEADER_BYTES_MAX = 100 * 10**6


@dataclass(frozen=True)
class ResolvedModel:
    """A model that exists and that this program can train.

    Attributes:
        name: as the operator wrote it.
        kind: the embedded one, a folder of the operator's, or a repository of the Hugging Face hub.
        path: the folder; None for a hub model that is not (wholly) in the local cache.
        repo_id, revision: of a hub model; the revision is a commit.
        architecture: the class name in its config.
        has_chat_template: else it is prompted with plain text.
        num_parameters: where it could be read from the headers; a tied head counts once.
        config: its config.json.
    """

    name: str
    kind: Literal["tiny", "folder", "hub"]
    path: Path | None
    repo_id: str | None
    revision: str | None
    architecture: str
    has_chat_template: bool
    num_parameters: int | None
    config: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False, compare=False)


def read_folder(
    name: str, path: Path, *, kind: Literal["tiny", "folder", "hub"] = "folder", repo_id: str | None = None
) -> ResolvedModel:
    """Check a Hugging Face folder: config, architecture, tokenizer, and every file of the weights.

    Raises:
        ModelUnavailable: something is missing or not supported; the message names it.
    """
    config = read_json(name, path / "config.json")
    architecture = check_architecture(name, config)
    if not any((path / file).is_file() for file in TOKENIZER_FILES):
        raise ModelUnavailable(
            f"model {name} has no tokenizer",
            f"{path} holds none of {', '.join(TOKENIZER_FILES)}",
            "save the tokenizer into the same folder",
        )
    return ResolvedModel(
        name=name,
        kind=kind,
        path=path,
        repo_id=repo_id,
        revision=path.name if kind == "hub" else None,
        architecture=architecture,
        has_chat_template=_has_chat_template(name, path),
        num_parameters=sum(_num_parameters(name, file) for file in weight_files(name, path)),
        config=config,
    )


def check_architecture(name: str, config: Mapping[str, Any]) -> str:
    """The architecture's class name.

    Raises:
        ModelUnavailable: not a plain causal language model, quantised, or one that brings code of its own.
    """
    architecture = str((config.get("architectures") or ["unknown"])[0])
    reason = ""
    if "auto_map" in config:
        reason = "it needs code from its own repository, which this program never runs"
    elif config.get("quantization_config"):
        reason = "its weights are quantised, and quantised weights cannot be trained as they are"
    elif config.get("is_encoder_decoder") or not architecture.endswith(("ForCausalLM", "LMHeadModel")):
        reason = "only causal language models (...ForCausalLM) can be trained here"
    if reason:
        raise ModelUnavailable(
            f"model {name} ({architecture}) is not supported", reason, "take a decoder such as Qwen2.5-0.5B"
        )
    return architecture


def weight_files(name: str, path: Path) -> list[Path]:
    """The safetensors files of a folder, all present.

    Raises:
        ModelUnavailable: none, or a shard is missing.
    """
    if (path / "model.safetensors").is_file():
        return [path / "model.safetensors"]
    if not (path / INDEX_FILE).is_file():
        pickled = any(path.glob("*.bin")) or any(path.glob("*.pt"))
        raise ModelUnavailable(
            f"model {name} has no weights in safetensors format",
            f"{path} holds {'pickled weights, which this program never loads' if pickled else 'no weights'}",
            "convert them with save_pretrained" if pickled else "download the model again",
        )
    shards = sorted(set(read_json(name, path / INDEX_FILE).get("weight_map", {}).values()))
    missing = [shard for shard in shards if not (path / shard).is_file()]
    if missing or not shards:
        raise ModelUnavailable(
            f"model {name} is not complete",
            f"{path} lacks {len(missing)} of {len(shards)} weight files, first {missing[:1]}",
            "download it again",
        )
    return [path / shard for shard in shards]


def read_json(name: str, file: Path) -> dict[str, Any]:
    """A JSON object of a model's folder. Raises ModelUnavailable, naming the file."""
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        why = f"{file} is missing: this is not a Hugging Face model folder"
        raise ModelUnavailable(
            f"model {name} cannot be read", why, "name a folder with config.json"
        ) from None
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"model {name} cannot be read", f"{file}: {error}") from None
    if not isinstance(content, dict):
        raise ModelUnavailable(f"model {name} cannot be read", f"{file} is not a JSON object")
    return content


def _has_chat_template(name: str, path: Path) -> bool:
    if (path / "chat_template.jinja").is_file() or (path / "chat_template.json").is_file():
        return True
    file = path / "tokenizer_config.json"
    return file.is_file() and bool(read_json(name, file).get("chat_template"))


def tensor_shapes(name: str, file: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a safetensors file, from its header alone; a file of 1 GB costs one small read.

    Raises:
        ModelUnavailable: it is not such a file, or not a whole one.
    """
    try:
        with open(file, "rb") as source:
            size = int.from_bytes(source.read(8), "little")
            if size > _HEADER_BYTES_MAX:
                raise ValueError("the header's size is impossible")
            header = json.loads(source.read(size))
        header.pop("__metadata__", None)
        num_bytes = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if not header:
            raise ValueError("there are no tensors in it")
        if file.stat().st_size != 8 + size + num_bytes:
            raise ValueError(f"{file.stat().st_size} bytes where the header says {8 + size + num_bytes}")
        return {tensor: tuple(map(int, entry["shape"])) for tensor, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ModelUnavailable(
            f"model {name} cannot be read", f"{file}: {error}", "download it again"
        ) from None


def _num_parameters(name: str, file: Path) -> int:
    return sum(map(math.prod, tensor_shapes(name, file).values()))
