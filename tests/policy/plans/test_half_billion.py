"""Three updates of a model of Qwen2.5-0.5B's shape on a CPU, in the memory that the plan prints, within 10 %. Random weights."""

import json
import shutil
from pathlib import Path

import pytest

from swarmd.config import UpdateSection
from swarmd.policy.model.folder import read_folder
from swarmd.policy.plans.choice import price
from swarmd.policy.plans.ladder import Plan, ladder
from swarmd.policy.plans.needs import Where, Work
from swarmd.policy.plans.shape import read_shape
from tests.policy.test_half_billion import BUILD, SHAPE, run

TOLERANCE = 0.1
WORK = Work(
    tokens_max=32,
    num_rollouts=4,
    completions=8,
    generated_at_once=32,
    generate_batch_tokens=16384,
    prompt_tokens=71,
)
UPDATE = UpdateSection(micro_batch_tokens=319)  # one rollout: 71 + 8 x 31
# The whole life of a policy process: start, a round's generation, three updates with the self-check in the first, a checkpoint.
LIFE = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from tests.policy.services import rollout, scored, service
settings = json.loads(sys.argv[3])
policy = service(Path(sys.argv[1]), checkpoints=Path(sys.argv[2]), learning_rate=1e-6, **settings)
policy.start()
prompts = [" ".join(["what is one and two?"] * 8)] * 4
made = policy.generate(prompts, 8, 1.0, settings["tokens_max"], 1).completions_RG
own = [
    rollout(prompt, [scored(c, float(n % 2)) for n, c in enumerate(group)], counter=i)
    for i, (prompt, group) in enumerate(zip(prompts, made))
]
answers = [policy.update(own, round=r, state={"round": r}, save="now" if r == 2 else "no").to_record() for r in (1, 2, 3)]
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
tokens = len(policy._tokeniser.prompt_ids(prompts[0]))
print(json.dumps({"peak_bytes": peak, "prompt_tokens": tokens, "plans": [a["plan"] for a in answers],
    "skipped": [a["skipped"] for a in answers], "checkpoint": answers[1]["checkpoint"]}))
"""


def printed_bytes(folder: Path, plan: Plan) -> int:
    """The peak in the table, by the functions that the start and doctor use."""
    shape = read_shape(read_folder("half", folder))
    assert shape is not None
    (priced,) = price(shape, WORK, Where("cpu", "transformers"), (plan,))
    return priced.needs.peak_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resident", "lora"])
def test_three_updates_take_the_memory_that_the_plan_prints(tmp_path: Path, name: str) -> None:
    plan = next(plan for plan in ladder(UPDATE, "cpu", can_sleep=False) if plan.name == name)
    folder, checkpoints = tmp_path / "model", tmp_path / "checkpoints"
    sizes = {"tokens_max": WORK.tokens_max, "micro_batch_tokens": UPDATE.micro_batch_tokens}
    try:
        run(BUILD, str(folder), json.dumps(SHAPE))
        told = run(LIFE, str(folder), str(checkpoints), json.dumps({**sizes, "plan": name}))
        printed = printed_bytes(folder, plan)
    finally:
        shutil.rmtree(tmp_path)  # 8 GB that pytest would keep for three runs
    report = json.loads(told.splitlines()[-1])
    measured = report["peak_bytes"]
    print(f"\n{name}: printed {printed / 2**30:.2f} GiB, measured {measured / 2**30:.2f}")
    assert (report["plans"], report["skipped"]) == ([name] * 3, [None] * 3)
    assert (report["prompt_tokens"], report["checkpoint"]) == (WORK.prompt_tokens, "round-00000002")
    assert abs(measured - printed) <= TOLERANCE * printed
