"""From a name to a model, before anything is downloaded or loaded; imports no torch."""

import difflib
import re
from collections.abc import Callable
from pathlib import Path

from swarmd.config.model_sections import TINY
from swarmd.errors import ModelUnavailable
from swarmd.policy.model.devices import resolve_device
from swarmd.policy.model.folder import ResolvedModel, read_folder

__all__ = ["ALIASES", "TINY", "ResolvedModel", "download_model", "resolve_device", "resolve_model"]

# Names people use, and the tuned variant that answers in a chat format: from a base model the first rewards take far longer.
ALIASES = {
    "Qwen2.5-0.5B": "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen2.5-1.5B": "Qwen/Qwen2.5-1.5B-Instruct",
    "Qwen2.5-3B": "Qwen/Qwen2.5-3B-Instruct",
    "Qwen2.5-7B": "Qwen/Qwen2.5-7B-Instruct",
    "Qwen3-0.6B": "Qwen/Qwen3-0.6B",
    "Qwen3-1.7B": "Qwen/Qwen3-1.7B",
    "Qwen3-4B": "Qwen/Qwen3-4B",
    "Qwen3-8B": "Qwen/Qwen3-8B",
    "Llama-3.2-1B": "meta-llama/Llama-3.2-1B-Instruct",
    "Llama-3.2-3B": "meta-llama/Llama-3.2-3B-Instruct",
    "SmolLM2-135M": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "SmolLM2-360M": "HuggingFaceTB/SmolLM2-360M-Instruct",
    "SmolLM2-1.7B": "HuggingFaceTB/SmolLM2-1.7B-Instruct",
}
_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def resolve_model(name: str) -> ResolvedModel:
    """Find out what `name` is: `tiny`, a folder, a name of `ALIASES` (case does not matter), or `org/name` of the hub.

    For a hub model that is not in the local cache, only its description is fetched; see `download_model`.

    Raises:
        ModelUnavailable: unknown, gated, incomplete, or of a kind that cannot be trained.
        Temporary: not in the cache, and the hub does not answer.
    """
    if name == TINY:
        from swarmd import tiny

        return read_folder(name, Path(tiny.model_dir()), kind="tiny")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return read_folder(name, folder.resolve())
    if name.startswith(("/", "./", "../", "~")):
        raise ModelUnavailable(f"there is no folder {folder}", fix="check policy.model")
    repo_id = next((repo_id for alias, repo_id in ALIASES.items() if alias.lower() == name.lower()), None)
    if repo_id is None and not _REPO_ID.fullmatch(name):
        raise _unknown(name)
    from swarmd.policy.model.hub import resolve_repository

    return resolve_repository(name, repo_id or name)


def download_model(model: ResolvedModel, told: Callable[[int, int], None]) -> Path:
    """The model's folder, downloaded first when it is a hub model that is not in the local cache.

    `told` gets the bytes that are there and those of the whole, about once a second.

    Raises:
        ModelUnavailable: gated, or gone.
        Temporary: the hub does not answer; what is there is kept, and the next call goes on from it.
        DiskFull: no space in the cache.
    """
    if model.path is not None:
        return model.path
    from swarmd.policy.model.hub import download_repository

    return download_repository(model, told)


def _unknown(name: str) -> ModelUnavailable:
    known = {alias.lower(): alias for alias in (TINY, *ALIASES)}
    near = difflib.get_close_matches(name.lower(), known, 1, 0.5)
    hint = f"did you mean {known[near[0]]}?" if near else f"known names: {', '.join(known.values())}"
    return ModelUnavailable(
        f"unknown model {name!r}",
        "it is no known name, no folder, and no hub id of the form org/name",
        hint,
    )
