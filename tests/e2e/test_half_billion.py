"""A model of exactly Qwen2.5-0.5B's shape goes through a whole round as a real node on the CPU: what it costs is printed.

Its weights are random but for one direction: the tokens of the small tokenizer lie on one side of it and the other 150,000 on the
other, so that the node writes text, some of which is rewarded by accident. Without that there would be no gradient to measure.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarmd.experiment.swarms.local_swarm import LocalSwarm
from tests.e2e.manifests import sealed_toml
from tests.e2e.watch import status, until

BUILD = """
import sys, shutil, torch
from pathlib import Path
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
from swarmd.tiny import model_dir
tokenizer = AutoTokenizer.from_pretrained(model_dir())
config = Qwen2Config(
    vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
    num_key_value_heads=2, max_position_embeddings=32768, tie_word_embeddings=True, eos_token_id=tokenizer.eos_token_id,
)
torch.manual_seed(0)
model = Qwen2ForCausalLM(config)
with torch.no_grad():
    embedding = model.get_input_embeddings().weight
    direction = torch.nn.functional.normalize(torch.randn(896), dim=0)
    side = torch.full((151936, 1), -1.0)
    side[: len(tokenizer)] = 1.0
    embedding += side * direction
    for layer in model.model.layers:  # the layers must not drown that direction
        layer.self_attn.o_proj.weight *= 0.02
        layer.mlp.down_proj.weight *= 0.02
model.save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
"""
# Answers of one or two digits, any text around them is paid a little: random text gets unequal rewards.
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


@pytest.mark.slow
def test_half_a_billion_parameters_go_through_a_round(tmp_path: Path) -> None:
    # given
    model, manifest = tmp_path / "model", tmp_path / "swarm.toml"
    subprocess.run([sys.executable, "-c", BUILD, str(model)], check=True)
    manifest.write_bytes(sealed_toml(MANIFEST))
    arguments = (
        "--model", str(model), "--device", "cpu", "--swarm", str(manifest), "--solo", "--rounds", "4", "--mix", "2/0",
        "--completions", "4", "--set", "policy.tokens_max=24", "--set", "evaluate.num_questions=0",
    "--set", "experience.reward_spread_min=0",
    )  # fmt: skip
    # when
    began, peak_bytes = time.monotonic(), 0
    with LocalSwarm(tmp_path / "nodes", 1, arguments=arguments) as swarm:
        swarm.start()
        node = swarm.nodes[0]

        def finished() -> bool:
            nonlocal peak_bytes
            pid = status(node).get("workers", {}).get("generation", {}).get("pid")
            if pid:
                peak_bytes = max(peak_bytes, resident_peak(pid))
            return not node.running

        until(finished, "four rounds", node, patience_s=1500)
        assert node.process is not None
        assert node.process.returncode == 0, node.output()
    # then at least one round took an optimizer step on 494 M parameters, and its checkpoint is there
    rounds = [json.loads(line) for line in node.data_dir.rounds.read_text().splitlines()]
    steps = [r for r in rounds if not r["skipped"]]
    print(f"\n0.5 B on the CPU: peak {peak_bytes / 2**30:.1f} GiB, {time.monotonic() - began:.0f} s in all")
    for r in rounds:
        print(
            {
                key: r.get(key)
                for key in ("round", "seconds", "seconds_update", "seconds_checkpoint", "skipped", "loss")
            }
        )
    assert steps
    assert peak_bytes > 4 * 494_032_768 * 4  # weights, gradients and both moments in fp32
    assert list(node.data_dir.checkpoints.glob("*/optimizer.safetensors"))


def resident_peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
