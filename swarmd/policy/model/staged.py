"""A model's folder as the libraries get it: written by us, with nothing in it but what passed; imports no torch.

transformers and vLLM look for files that they might use, in ways that change with each release. Neither finds what is not there.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from swarmd.policy.model.allowed import INDEX_FILE, JSON_FILES, allow
from swarmd.policy.model.folder import read_folder, read_json, readable_files, weight_files
from swarmd.policy.state.durable import fresh_directory, write_file

Say = Callable[[str], None]


def stage(name: str, folder: Path, target: Path, say: Say = lambda line: None) -> Path:
    """Make `target` the folder that child processes load the model of `folder` from, and return `target`. Weights are links.

    An older `target` is replaced, and `say` hears which keys were left out.

    Raises:
        ModelUnavailable: as `read_folder`. DiskFull, StateError: `target` cannot be written.
    """
    read_folder(name, folder)
    with fresh_directory(target, f"the files of model {name}") as fresh:
        copy_allowed(name, folder, fresh, say)
        for file in weight_files(name, folder):
            os.symlink(file.resolve(), fresh / file.name)
        if not (fresh / "model.safetensors").exists():
            index = read_json(name, folder / INDEX_FILE)
            write_file(
                fresh / INDEX_FILE, json.dumps({"metadata": {}, "weight_map": index["weight_map"]}).encode()
            )
    return target


def copy_allowed(name: str, folder: Path, target: Path, say: Say = lambda line: None) -> None:
    """Write everything but the weights that may be read of a model's folder to another one.

    Raises:
        ModelUnavailable: something in it is not allowed. OSError: it cannot be written.
    """
    for file in readable_files(name, folder):
        if file.name in JSON_FILES:
            allowed = allow(name, file.name, read_json(name, file))
            write_file(target / file.name, json.dumps(allowed.content, indent=1, ensure_ascii=False).encode())
            if allowed.left_out:
                say(f"! model      {file.name}: left out {', '.join(sorted(allowed.left_out))}")
        else:
            with open(file, "rb") as source, open(target / file.name, "xb") as copy:
                shutil.copyfileobj(source, copy)
