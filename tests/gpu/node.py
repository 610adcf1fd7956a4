"""A whole node for the tests here: its packages, a random policy that writes text, a swarm that pays some of it, its settings.

Nothing is imported before a test has seen that every package is there.
"""

from pathlib import Path
from typing import Any

import torch

from tests.gpu.case import DEVICE, REHEARSAL
from tests.gpu.rounds import HALF_BILLION, TOY

# What a node without a network imports, in its daemon and its children, beside torch and transformers.
NEEDS = (
    "click",
    "h11",
    "jinja2",
    "msgpack",
    "nacl",
    "numpy",
    "prometheus_client",
    "pydantic",
    "reasoning_gym",
    "safetensors",
    "tokenizers",
    "tqdm",
    "trio",
    "zstandard",
)
SHAPE = TOY | {"vocab_size": 512, "hidden_size": 128} if REHEARSAL else HALF_BILLION
# Random text now and then has a part of an answer of one or two digits, and is paid a little: rewards differ.
MANIFEST = """
version = 2
name = "half-billion"
prompt_template = "{question}"
answer_format = "plain"
scorer_version = 2
[[datasets]]
name = "gcd"
params = { min_value = 1, max_value = 20 }
"""
# Between two checkpoints there is time for rounds that a kill can take.
INTERVAL_S = 2.0 if REHEARSAL else 45.0
SETTINGS = (
    "--solo", "--device", DEVICE, "--mix", "2/0", "--completions", "4",
    "--set", "policy.tokens_max=24", "--set", "experience.reward_spread_min=0", "--set", "evaluate.num_questions=0",
    "--set", "trust.canary=off", "--set", f"checkpoint.interval_s={INTERVAL_S}", "--set", "checkpoint.gb_per_day_max=0",
    *(("--set", "policy.threads=1") if REHEARSAL else ()),
)  # fmt: skip


def build_policy(folder: Path, shape: dict[str, Any]) -> None:
    """A Qwen2 of this shape with the small tokenizer. Its weights are random but for one direction.

    The tokens of the tokenizer lie on one side of it and all others on the other side, so that the policy writes text, some of
    which is rewarded by accident. Without that there would be no gradient.
    """
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    from swarmd.tiny import model_dir

    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    config = Qwen2Config(**shape, max_position_embeddings=32768, eos_token_id=tokenizer.eos_token_id)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight
        direction = torch.nn.functional.normalize(torch.randn(config.hidden_size), dim=0)
        side = torch.full((config.vocab_size, 1), -1.0)
        side[: len(tokenizer)] = 1.0
        embedding += side * direction
        for layer in model.model.layers:  # the layers must not drown that direction
            layer.self_attn.o_proj.weight *= 0.02
            layer.mlp.down_proj.weight *= 0.02
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def swarm_of_one(root: Path, *arguments: str) -> Any:
    """A `LocalSwarm` of one node, not started, whose model and manifest lie below `root`."""
    from swarmd.experiment.swarms.local_swarm import LocalSwarm
    from tests.e2e.manifests import sealed_toml

    build_policy(root / "model", SHAPE)
    manifest = root / "swarm.toml"
    manifest.write_bytes(sealed_toml(MANIFEST))
    given = ("--model", str(root / "model"), "--swarm", str(manifest))
    return LocalSwarm(root / "nodes", 1, seed=7, arguments=(*given, *SETTINGS, *arguments))


def free_bytes() -> int:
    """What the device has free, whoever holds the rest."""
    return torch.cuda.mem_get_info()[0] if DEVICE == "cuda" else 0
