"""A whole round at the size of Qwen2.5-0.5B on a CPU: that it fits, and what it costs. Random weights; only the shape counts."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHAPE = {
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
# 494 M parameters: 2.0 GB of weights, as much of gradients, twice as much of optimizer state.
PARAMETERS = 494_032_768
PEAK_BYTES_MAX = 14 * 2**30

BUILD = """
import json, sys, torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from tests.policy.folders import build_tokenizer
model = Qwen2ForCausalLM(Qwen2Config(**json.loads(sys.argv[2])))
model.generation_config.eos_token_id = [2, 0]
model.save_pretrained(sys.argv[1])
build_tokenizer().save_pretrained(sys.argv[1])
"""
ROUND = """
import json, resource, sys, time
from pathlib import Path
from tests.policy.services import as_external, own_rollout, service
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
folder, checkpoints = Path(sys.argv[1]), Path(sys.argv[2])
policy = service(folder, checkpoints=checkpoints, learning_rate=1e-6, tokens_max=32)
began = time.perf_counter()
info = policy.start()
report = {"num_parameters": info.num_parameters, "start_s": time.perf_counter() - began, "start_bytes": peak()}
made = policy.generate(["what is one and two?"] * 4, 8, 1.0, 32, 1)
report |= {"generate_tokens_per_s": made.num_completion_tokens / made.seconds, "generate_bytes": peak()}
own = own_rollout(policy, "what is one and two?")
both = [own, as_external(own_rollout(policy, "one?", seed=2))]
stats = policy.update(both, round=1, state={"round": 1}, save="now").to_record()
report |= {key: stats[key] for key in ("checkpoint", "seconds_checkpoint", "seconds_update", "num_tokens_forwarded")}
report |= {"fast_path": stats["fast_path"], "self_check": stats["self_check"], "skipped": stats["skipped"]}
again = policy.update([own], round=2, state={"round": 2}, save="no").to_record()
report |= {"seconds_second_update": again["seconds_update"], "peak_bytes": peak()}
report["checkpoint_bytes"] = sum(f.stat().st_size for f in (checkpoints / "round-00000001").iterdir())
print(json.dumps(report))
"""


def run(code: str, *args: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *args], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


@pytest.mark.slow
def test_a_round_of_half_a_billion_parameters_fits_a_desktops_memory(tmp_path: Path) -> None:
    try:
        run(BUILD, str(tmp_path / "model"), json.dumps(SHAPE))
        report = json.loads(
            run(ROUND, str(tmp_path / "model"), str(tmp_path / "checkpoints")).splitlines()[-1]
        )
    finally:
        shutil.rmtree(tmp_path)  # 8 GB that pytest would keep for three runs
    print(json.dumps(report, indent=1))
    assert report["num_parameters"] == PARAMETERS
    assert (report["checkpoint"], report["skipped"]) == ("round-00000001", None)
    assert report["peak_bytes"] < PEAK_BYTES_MAX
