"""A trained policy as a Hugging Face folder that any tool can load, with a card that says where it came from."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swarmd import __version__
from swarmd.errors import StateError
from swarmd.policy.durable import fresh_directory, write_file
from swarmd.policy.tokenise import Tokeniser
from swarmd.policy.weights import FILE_NAME, named_tensors, size_bytes, write_tensors

# A licence travels with the weights derived under it.
_COPIED = ("generation_config.json", "LICENSE", "LICENSE.txt")


def export_folder(
    model: Any,
    tokeniser: Tokeniser,
    directory: Path,
    *,
    source_dir: Path,
    model_name: str,
    policy_version: int,
) -> None:
    """Write model, tokenizer, generation config and README.md; `directory` must not exist yet or be empty.

    Raises:
        StateError: the folder holds something, or cannot be written.
        DiskFull: no space; nothing is left behind.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise StateError(f"{directory} exists and is not empty", fix="name a new folder")
    tensors = named_tensors(model)
    with fresh_directory(directory, "the export", size_bytes=size_bytes(tensors)) as folder:
        model.config.save_pretrained(folder)
        tokeniser.save(str(folder))
        write_tensors(folder / FILE_NAME, tensors)
        for name in _COPIED:
            if (source_dir / name).is_file():
                shutil.copyfile(source_dir / name, folder / name)
        write_file(folder / "README.md", _card(model_name, policy_version, model).encode())


def _card(model_name: str, policy_version: int, model: Any) -> str:
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    base = f"base_model: {model_name}\n" if "/" in model_name and not Path(model_name).is_dir() else ""
    return f"""---
library_name: transformers
pipeline_tag: text-generation
{base}tags: [swarmd, grpo, reinforcement-learning]
---
# {Path(model_name).name}, trained in a swarm

| | |
|---|---|
| trained from | {model_name} |
| parameters | {num_parameters:,} |
| policy updates | {policy_version} |
| trained by | swarmd {__version__} |
| exported | {datetime.now(UTC):%Y-%m-%d} |

Post-trained by Swarm sAmpling Policy Optimization (arXiv 2509.08721): GRPO on the node's own rollouts and on rollouts that other
nodes shared as text, all scored by this node. It has seen questions with checkable answers and nothing else; it has not been
tuned or tested for anything beyond them. The licence of the model it was trained from applies.
"""
