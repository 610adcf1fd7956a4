"""The embedded policy: a language model of under a million parameters that ships with the package.

`build.py` says what it knows, what it does not, and how to make it again.
"""

from pathlib import Path


def model_dir() -> Path:
    """The Hugging Face folder of the embedded policy (config, safetensors weights, tokenizer)."""
    return Path(__file__).resolve().parent / "model"
