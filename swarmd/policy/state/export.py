"""A trained policy as a Hugging Face folder that any tool can load, with a card that says where it came from; imports no torch."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from swarmd import __version__
from swarmd.errors import ModelUnavailable, StateError
from swarmd.policy.model.folder import ResolvedModel, read_folder
from swarmd.policy.model.staged import copy_allowed
from swarmd.policy.state.checkpoints import MODEL_FILE, newest_valid
from swarmd.policy.state.durable import fresh_directory, write_file


def export_checkpoint(checkpoints_dir: Path, model: ResolvedModel, directory: Path) -> str:
    """Write the newest good checkpoint as a Hugging Face folder, without loading it; returns its name.

    The folder of `model` gives config and tokenizer. `directory` must not exist yet, or be empty.

    Raises:
        ModelUnavailable: the model is not in the local cache.
        StateError: no good checkpoint, another model's, or the folder holds something.
        DiskFull: no space; nothing is left behind.
    """
    if model.path is None:
        raise ModelUnavailable(
            f"model {model.name} is not in the local cache", "its tokenizer and config are needed"
        )
    found = newest_valid(checkpoints_dir)
    if found.path is None:
        raise StateError(
            f"there is no checkpoint to export in {checkpoints_dir}",
            "; ".join(found.skipped) or "none has been written yet",
            "run the node for a round, or name its --data-dir",
        )
    if found.model != model.name:
        raise StateError(
            f"checkpoint {found.path.name} is of model {found.model}, not {model.name}",
            fix=f"swarmd export --model {found.model}",
        )
    target = Path(os.path.abspath(directory))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StateError(f"{target} exists and is not empty", fix="name a new folder")
    weights = found.path / MODEL_FILE
    with fresh_directory(target, "the export", size_bytes=weights.stat().st_size) as folder:
        copy_allowed(model.name, model.path, folder)
        with open(weights, "rb") as ours, open(folder / MODEL_FILE, "xb") as copy:
            shutil.copyfileobj(ours, copy)
            copy.flush()
            os.fsync(copy.fileno())
        num_parameters = read_folder(model.name, folder).num_parameters or 0
        write_file(folder / "README.md", _card(model.name, num_parameters, found.policy_version).encode())
    return found.path.name


def _card(name: str, num_parameters: int, policy_version: int) -> str:
    base = f"base_model: {name}\n" if name.count("/") == 1 and not name.startswith((".", "/", "~")) else ""
    return f"""---
library_name: transformers
pipeline_tag: text-generation
{base}tags: [swarmd, grpo, reinforcement-learning]
---
# {Path(name).name}, trained in a swarm

| | |
|---|---|
| trained from | {name} |
| parameters | {num_parameters:,} |
| policy updates | {policy_version} |
| trained by | swarmd {__version__} |
| exported | {datetime.now(UTC):%Y-%m-%d} |

Post-trained by Swarm sAmpling Policy Optimization (arXiv 2509.08721): GRPO on the node's own rollouts and on rollouts that other
nodes shared as text, all scored by this node. It has seen questions with checkable answers and nothing else; it has not been
tuned or tested for anything beyond them. The licence of the model it was trained from applies.
"""
