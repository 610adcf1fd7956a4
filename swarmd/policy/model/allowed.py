"""The files of a model's folder that may be read, and the keys in them. Pure; the model's maker decides none of it.

Libraries read more than a model needs: a key of a config names a kernel to download, another file's path, or a module. So files are
taken by name and values by kind: numbers, switches and single words pass, and tokens and templates in their own places.
A key that names code is refused. A key that names a place, or is a library's own, is left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from swarmd.errors import ModelUnavailable

INDEX_FILE = "model.safetensors.index.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
# The largest public ones: config 60 KB, tokenizer_config 1.2 MB, tokenizer.json 33 MB, index 9 MB. The limits leave room.
_KIB, _MIB = 2**10, 2**20
JSON_FILES = {
    "config.json": 4 * _MIB,
    "generation_config.json": _MIB,
    "tokenizer_config.json": 8 * _MIB,
    "special_tokens_map.json": 4 * _MIB,
    "added_tokens.json": 16 * _MIB,
    "chat_template.json": _MIB,
}
OTHER_FILES = {
    "tokenizer.json": 128 * _MIB,
    "vocab.json": 64 * _MIB,
    "merges.txt": 64 * _MIB,
    "tokenizer.model": 64 * _MIB,
    "spiece.model": 64 * _MIB,
    "chat_template.jinja": 256 * _KIB,
}
INDEX_BYTES_MAX = 64 * _MIB
LICENCES = ("LICENSE*", "NOTICE*")
LICENCE_BYTES_MAX = _MIB
WEIGHTS = re.compile(r"[\w.-]{1,200}\.safetensors")
# A file of one of these names makes libraries load another model than the folder's.
REDIRECTS = {
    "adapter_config.json": "it is an adapter, and libraries would load the model that it names instead"
}

_CODE = frozenset(
    {
        "auto_map",
        "code_revision",
        "custom_generate",
        "custom_pipelines",
        "hub_kernels",
        "kernel_config",
        "kernels",
        "transformers_weights",
        "trust_remote_code",
        "use_kernels",
    }
)
_IMPLEMENTATION = re.compile(r"_?(attn|attention|experts|moe)_implementation(_internal)?")
_PLACES = re.compile(r".*_(file|path|dir)|init_inputs|tokenizer_object")
_QUANTISED = ("quantization_config", "compression_config")
_TOKENS = re.compile(r".*_tokens?")
_TOKEN_KEYS = frozenset({"added_tokens_decoder", "chat_template", "model_specific_special_tokens"})
# A word: no path, no address, no repository. Real ones: "silu", "llama3", "4.43.0.dev0", "Qwen2ForCausalLM", "gelu_pytorch_tanh".
_WORD = re.compile(r"[\w .,+()-]{0,200}")
_CLASS = re.compile(r"[A-Za-z]\w{0,99}")
_DEPTH_MAX = 24


@dataclass(frozen=True)
class Allowed:
    """A file's keys that may be read, and the names of the keys that are left out."""

    content: Mapping[str, object]
    left_out: list[str] = field(default_factory=list)


def allow(name: str, file: str, content: Mapping[str, object]) -> Allowed:
    """The part that may be read of a parsed `file`, one of `JSON_FILES`, of the model `name`.

    Raises:
        ModelUnavailable: a key of the file names code, or the weights are quantised.
    """
    kept, left_out = {}, []
    for key, value in content.items():
        if (reason := _refusal(key, value)) or (reason := _nested_refusal(value)):
            raise ModelUnavailable(
                f"model {name} is not supported", f"{file}: {reason}", "take a model that brings no code"
            )
        if _may_be_read(file, key, value):
            kept[key] = value
        else:
            left_out.append(key)
    return Allowed(kept, left_out)


def _refusal(key: str, value: object) -> str:
    """Why this key stops the whole model; empty when it does not."""
    if not value:
        return ""
    if key in _CODE:
        return f"{key} needs code from its own repository, which this program never runs"
    if _IMPLEMENTATION.fullmatch(key) and not all(_CLASS.fullmatch(text) for text in _texts(value)):
        return f"{key} names code to download, which this program never runs"
    if key in _QUANTISED:
        return f"{key}: its weights are quantised, and quantised weights cannot be trained as they are"
    if key == "tokenizer_class" and not (isinstance(value, str) and _CLASS.fullmatch(value)):
        return "tokenizer_class is no class of the transformers library"
    return ""


def _nested_refusal(value: object, depth: int = 0) -> str:
    if depth > _DEPTH_MAX:
        return f"it is nested deeper than {_DEPTH_MAX}"
    if isinstance(value, Mapping):
        found = (_refusal(key, part) or _nested_refusal(part, depth + 1) for key, part in value.items())
    elif isinstance(value, list):
        found = (_nested_refusal(part, depth + 1) for part in value)
    else:
        return ""
    return next(filter(None, found), "")


def _may_be_read(file: str, key: str, value: object) -> bool:
    if file == "chat_template.json":
        return key == "chat_template" and isinstance(value, str)
    if file == "special_tokens_map.json":
        return bool(_TOKENS.fullmatch(key))
    if file == "added_tokens.json":
        return isinstance(value, int)
    if key in _CODE or _PLACES.fullmatch(key) or _IMPLEMENTATION.fullmatch(key):
        return False
    if key.startswith("_"):  # a library's own; of these only switches pass
        return value is None or isinstance(value, bool)
    if file == "tokenizer_config.json" and (key in _TOKEN_KEYS or _TOKENS.fullmatch(key)):
        return True
    return all(_WORD.fullmatch(text) for text in _texts(value))


def _texts(value: object) -> Iterator[str]:
    """Every text in a value; of a mapping within, the keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield key
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
