"""Packages that a node on a GPU wants beside torch, and what it does without each. Imports none of them."""

import importlib.util
from importlib.metadata import PackageNotFoundError, version

INSTALL = "pip install 'swarmd[gpu]'"
# By the module that is imported: the distribution, and what is lost without it.
WANTED = {
    "pynvml": ("nvidia-ml-py", "nobody can tell how much of the card's memory is free"),
    "vllm": ("vllm", "generation is several times slower"),
    "bitsandbytes": ("bitsandbytes", "the plan adam-8bit cannot be had"),
    "peft": ("peft", "the plan lora cannot be had"),
}


def vllm_build() -> str:
    """`cuda` or `cpu`: the build of vLLM that is installed; empty where there is none."""
    if importlib.util.find_spec("vllm") is None:
        return ""
    try:
        return "cpu" if "cpu" in version("vllm") else "cuda"
    except PackageNotFoundError:  # a build for CPUs is distributed under another name
        return "cpu"


def missing() -> dict[str, str]:
    """Distributions that are not there, or not for a GPU, and what is lost without each."""
    found = {
        name: loss for module, (name, loss) in WANTED.items() if importlib.util.find_spec(module) is None
    }
    if vllm_build() == "cpu":
        found["vllm"] = (
            "the installed one is built for CPUs, and generation is several times slower without vLLM's GPU build"
        )
    return found
