"""Two real nodes with different model sizes and different tokenizers: each trains on the other's text."""

import json
import math
from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from swarmd.experiment.swarms.local_swarm import LocalNode, LocalSwarm
from swarmd.tiny import model_dir
from tests.e2e.manifests import sealed_toml
from tests.e2e.watch import until
from tests.policy.folders import build_tokenizer

# Untrained models write random text; paying for any text with the answer in it gives them unequal rewards by accident.
MANIFEST = """
version = 2
name = "unlike"
prompt_template = "{question}"
answer_format = "plain"
scorer_version = 2
[[datasets]]
name = "gcd"
params = { min_value = 1, max_value = 20 }
"""
SETTINGS = (
    "--device", "cpu", "--mix", "2/2",
    "--set", "policy.threads=1", "--set", "policy.tokens_max=48", "--set", "evaluate.num_questions=0",
    "--set", "experience.reward_spread_min=0",
    "--set", "update.learning_rate=1e-4",
)  # fmt: skip


def build(folder: Path, tokenizer: object, *, hidden: int, layers: int) -> int:
    """A random model with this tokenizer; returns the number of its parameters."""
    torch.manual_seed(hidden)
    config = Qwen2Config(
        vocab_size=len(tokenizer),  # type: ignore[arg-type]
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=1,
        eos_token_id=tokenizer.eos_token_id,  # type: ignore[attr-defined]
    )
    model = Qwen2ForCausalLM(config)
    # One token in twenty ends a text: most fit the other's limit in the other's tokens. A text that has to be cut trains nobody.
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 0] = 1.0
        model.lm_head.weight[:, 0] = 0.0
        model.lm_head.weight[tokenizer.eos_token_id, 0] = math.log(len(tokenizer) / 20) / math.sqrt(hidden)  # type: ignore[attr-defined,arg-type]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)  # type: ignore[attr-defined]
    return int(sum(parameter.numel() for parameter in model.parameters()))


def trained_on_others(node: LocalNode) -> list[dict[str, int]]:
    path = node.data_dir.rounds
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [r for r in records if r["num_external"] and r["num_tokens_external"] and not r["skipped"]]


def test_each_trains_on_the_others_text(tmp_path: Path) -> None:
    # given
    first, second = AutoTokenizer.from_pretrained(model_dir()), build_tokenizer()
    text = "the greatest common divisor is 12"
    assert first(text).input_ids != second(text).input_ids
    sizes = [
        build(tmp_path / "small", first, hidden=64, layers=1),
        build(tmp_path / "large", second, hidden=128, layers=2),
    ]
    assert sizes[0] != sizes[1]
    (tmp_path / "swarm.toml").write_bytes(sealed_toml(MANIFEST))
    # when
    with LocalSwarm(
        tmp_path / "nodes", 2, arguments=(*SETTINGS, "--swarm", str(tmp_path / "swarm.toml"))
    ) as swarm:
        swarm.start(0, extra=("--model", str(tmp_path / "small")))
        swarm.start(1, extra=("--model", str(tmp_path / "large")))
        # then
        for node, other in (swarm.nodes, swarm.nodes[::-1]):
            rounds = until(lambda node=node: trained_on_others(node), "a step on the other's rollouts", node)
            assert list(rounds[0]["used_by_author"]) == [other.identity.peer_id]
