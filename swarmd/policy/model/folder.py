"""A model's folder, read without torch: enough to refuse the model before anything is loaded or downloaded."""

import json
import math
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from swarmd.errors import ModelUnavailable
from swarmd.files.reading import read_within
from swarmd.policy.model.allowed import (
    INDEX_BYTES_MAX,
    INDEX_FILE,
    JSON_FILES,
    LICENCE_BYTES_MAX,
    LICENCES,
    OTHER_FILES,
    REDIRECTS,
    TOKENIZER_FILES,
    WEIGHTS,
    allow,
)
from swarmd.policy.model.header import tensor_shapes

# "num_hidden_layers", "n_layer", "decoder_layers", "n_routed_experts", "num_blocks", whatever a kind of model calls them; but
# Qwen2's "max_window_layers" is 28 in models of fewer.
_LAYERS = re.compile(r"(?!max_)(.*_)?(layers?|experts?|blocks?)")


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
    config: Mapping[str, object] = field(default_factory=dict, repr=False, hash=False, compare=False)


def read_folder(
    name: str, path: Path, *, kind: Literal["tiny", "folder", "hub"] = "folder", repo_id: str | None = None
) -> ResolvedModel:
    """Check a Hugging Face folder: every file that may be read of it, the architecture, and every file of the weights.

    Raises:
        ModelUnavailable: something is missing, not supported, or not allowed; the message names it.
    """
    config = read_json(name, path / "config.json")
    architecture = check_architecture(name, config)
    for file in readable_files(name, path):
        if file.name in JSON_FILES:
            allow(name, file.name, read_json(name, file))
    if not any((path / file).is_file() for file in TOKENIZER_FILES):
        raise ModelUnavailable(
            f"model {name} has no tokenizer",
            f"{path} holds none of {', '.join(TOKENIZER_FILES)}",
            "save the tokenizer into the same folder",
        )
    shapes: dict[str, tuple[int, ...]] = {}
    for file in weight_files(name, path):
        plain_file(name, path, file.name)
        shapes |= tensor_shapes(name, file)
    _check_layers(name, config, len(shapes))
    return ResolvedModel(
        name=name,
        kind=kind,
        path=path,
        repo_id=repo_id,
        revision=path.name if kind == "hub" else None,
        architecture=architecture,
        has_chat_template=chats(name, path),
        num_parameters=sum(map(math.prod, shapes.values())),
        config=config,
    )


def _check_layers(name: str, config: Mapping[str, object], num_tensors: int) -> None:
    """A library makes a layer at a time before it looks for weights, until the memory is full."""
    for key, found in _numbers(config):
        if _LAYERS.fullmatch(key) and found > num_tensors:
            raise ModelUnavailable(
                f"model {name} cannot be read",
                f"config.json says {key} {found}, and the weights have {num_tensors} tensors",
                "download it again",
            )


def _numbers(value: object) -> Iterator[tuple[str, int]]:
    """Every integer of a config with its key, also those of configs within it, such as that of the text part."""
    for key, part in value.items() if isinstance(value, Mapping) else ():
        if isinstance(part, int):
            yield key, part
        for inner in part if isinstance(part, list) else [part]:
            yield from _numbers(inner)


def check_architecture(name: str, config: Mapping[str, object]) -> str:
    """The architecture's class name.

    Raises:
        ModelUnavailable: not a plain causal language model, quantised, or one that brings code of its own.
    """
    allow(name, "config.json", config)
    named = config.get("architectures")
    architecture = str(named[0]) if isinstance(named, list) and named else "unknown"
    if config.get("is_encoder_decoder") or not (
        architecture.isidentifier() and architecture.endswith(("ForCausalLM", "LMHeadModel"))
    ):
        raise ModelUnavailable(
            f"model {name} ({architecture}) is not supported",
            "only causal language models (...ForCausalLM) can be trained here",
            "take a decoder such as Qwen2.5-0.5B",
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
    shards = _shards(name, path / INDEX_FILE)
    missing = [shard for shard in shards if not (path / shard).is_file()]
    if missing or not shards:
        raise ModelUnavailable(
            f"model {name} is not complete",
            f"{path} lacks {len(missing)} of {len(shards)} weight files, first {missing[:1]}",
            "download it again",
        )
    return [path / shard for shard in shards]


def _shards(name: str, index: Path) -> list[str]:
    weight_map = read_json(name, index).get("weight_map")
    values = list(weight_map.values()) if isinstance(weight_map, dict) else [""]
    found = {value if isinstance(value, str) else "" for value in values}
    if strange := sorted(shard for shard in found if not WEIGHTS.fullmatch(shard)):
        raise ModelUnavailable(
            f"model {name} cannot be read",
            f"{index} names {strange[0][:200]!r} as a file of the weights",
            "they are safetensors files of the same folder",
        )
    return sorted(found)


def readable_files(name: str, path: Path) -> Iterator[Path]:
    """The files of a folder that may be read, beside its weights; others are left alone.

    Raises:
        ModelUnavailable: one of them leads out of the folder, is too large, or makes libraries load another model.
    """
    for file, why in REDIRECTS.items():
        if (path / file).exists():
            raise ModelUnavailable(
                f"model {name} is not supported",
                f"{path / file}: {why}",
                "merge it into the model, or remove it",
            )
    limits = {**JSON_FILES, **OTHER_FILES}
    limits |= {found.name: LICENCE_BYTES_MAX for pattern in LICENCES for found in path.glob(pattern)}
    for file, most in limits.items():
        found = plain_file(name, path, file)
        if found is None:
            continue
        if found.stat().st_size > most:
            raise ModelUnavailable(
                f"model {name} cannot be read",
                f"{found} has {found.stat().st_size} bytes, and the limit is {most}",
                "download it again",
            )
        yield found


def plain_file(name: str, path: Path, file: str) -> Path | None:
    """A file of the folder by its name, None when there is none. The hub's cache keeps files beside the folder, and links in it.

    Raises:
        ModelUnavailable: it is no plain file, or a link that leads elsewhere.
    """
    found = path / file
    try:
        kind = found.stat().st_mode
        target = found.resolve(strict=True)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as error:
        raise ModelUnavailable(f"model {name} cannot be read", f"{found}: {error}") from None
    folder = path.resolve()
    own = [folder, folder.parent.parent / "blobs"] if folder.parent.name == "snapshots" else [folder]
    if not stat.S_ISREG(kind) or target.parent not in own:
        why = "is a link that leads out of the folder" if stat.S_ISREG(kind) else "is no plain file"
        raise ModelUnavailable(f"model {name} cannot be read", f"{found} {why}", "put the file itself there")
    return found


def read_json(name: str, file: Path) -> dict[str, object]:
    """A JSON object of a model's folder. Raises ModelUnavailable, naming the file."""
    try:
        if plain_file(name, file.parent, file.name) is None:
            why = f"{file} is missing: this is not a Hugging Face model folder"
            raise ModelUnavailable(f"model {name} cannot be read", why, "name a folder with config.json")
        content = json.loads(read_within(file, JSON_FILES.get(file.name, INDEX_BYTES_MAX)))
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"model {name} cannot be read", f"{file}: {error}") from None
    except RecursionError:
        raise ModelUnavailable(f"model {name} cannot be read", f"{file} is nested too deeply") from None
    if not isinstance(content, dict):
        raise ModelUnavailable(f"model {name} cannot be read", f"{file} is not a JSON object")
    return content


def chats(name: str, path: Path) -> bool:
    """Whether a folder has a chat template."""
    if (path / "chat_template.jinja").is_file() or (path / "chat_template.json").is_file():
        return True
    file = path / "tokenizer_config.json"
    return file.is_file() and bool(read_json(name, file).get("chat_template"))
