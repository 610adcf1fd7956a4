"""Generation with vLLM, inside this very process; promises that no completion comes from weights other than the ones last given.

An engine process of vLLM's own would outlive a killed owner, so there is none: the engine's loop runs here, and the child process
around it is what may die. After an exception within vLLM nothing of it can be trusted, and the process ends; its supervisor
starts another. Names below are those of `RELEASES`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from swarmd.errors import LocalError, OutOfMemory
from swarmd.policy.generation.drawing import GREEDY_BELOW
from swarmd.policy.generation.engine import Sampled, Sampling
from swarmd.policy.generation.vllm_open import open_llm
from swarmd.policy.generation.vllm_process import prepare_environment, restore_crash_signals, unpacked
from swarmd.policy.memory import is_out_of_memory
from swarmd.policy.state.shapes import ModelShapes
from swarmd.policy.state.weights import opened
from swarmd.processes.ends import end_process

if TYPE_CHECKING:
    from vllm import CompletionOutput, SamplingParams
    from vllm.inputs.engine import TokensInput

# Releases of vLLM whose names this file knows; pyproject.toml says the same.
RELEASES = ("0.32", "0.33")


class VllmEngine:
    """Samples through vLLM from a Hugging Face folder's model.

    Args:
        model_dir: the engine starts with the weights of this folder.
        device: `cpu` (with vLLM's CPU build) or `cuda`.
        shapes: what new weights must look like.
        batch_tokens_max: prompt and completion tokens that the cache holds at once; also the longest row.
        context_tokens_max: what prompt and completion together may not exceed.
        can_sleep: `sleep` frees the memory of weights and cache (CUDA only); of the cache alone where the weights are shared.
        can_share: a model may take the engine's tensors for its own. The CPU build then packs no matrix, which costs it speed.

    Raises:
        LocalError: vLLM does not start with this model on this device.
    """

    name = "vllm"
    keeps_weights = True
    own_forward = True

    def __init__(
        self,
        model_dir: Path,
        *,
        device: str,
        shapes: ModelShapes,
        eos_ids: Iterable[int],
        batch_tokens_max: int,
        context_tokens_max: int,
        can_sleep: bool = False,
        can_share: bool = False,
    ) -> None:
        prepare_environment()
        import vllm

        self.version = vllm.__version__
        self._shapes = shapes
        self._eos_ids = sorted(eos_ids)
        self._context_tokens_max = min(context_tokens_max, batch_tokens_max)
        self._can_sleep = can_sleep and device != "cpu"
        self._asleep = False
        self._can_share = can_share
        set_num_threads, num_threads = torch.set_num_threads, torch.get_num_threads()
        try:
            with unpacked(can_share):
                self._engine = open_llm(
                    model_dir,
                    device=device,
                    context_tokens_max=self._context_tokens_max,
                    batch_tokens_max=batch_tokens_max,
                    can_sleep=self._can_sleep,
                )
        except Exception as error:  # any library under vLLM may fail here; the caller falls back or ends
            kind = OutOfMemory if is_out_of_memory(error) else LocalError
            raise kind(
                f"vLLM {self.version} cannot run the model in {model_dir} on {device}",
                str(error) or type(error).__name__,
                "take policy.engine = transformers",
            ) from error
        finally:
            # vLLM's CPU worker puts a function that does nothing in its place, for the whole process.
            torch.set_num_threads = set_num_threads
            # On CUDA it leaves one thread, and the optimizer on the host wants all of them.
            torch.set_num_threads(num_threads)
            restore_crash_signals()

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Sampled]]:
        """See `Engine`. A completion's seed follows from `sampling.seed` and its place. The engine forgets earlier prompts."""
        from vllm import RequestOutput

        if self._asleep and self.keeps_weights:
            raise LocalError("the engine sleeps", "its weights were given back", "load weights first")
        found = [[Sampled() for _ in range(sampling.num_completions)] for _ in prompts]
        try:
            self._wait_for_weights()
            if not self._engine.reset_prefix_cache():
                raise RuntimeError("the prefix cache could not be emptied")
            for index, prompt in enumerate(prompts):
                room = min(sampling.tokens_max, self._context_tokens_max - len(prompt))
                if room > 0:
                    parameters = self._parameters(sampling, index, room)
                    tokens: TokensInput = {"type": "token", "prompt_token_ids": list(prompt)}
                    self._engine.add_request(str(index), tokens, parameters)
            while self._engine.has_unfinished_requests():
                for output in self._engine.step():
                    assert isinstance(output, RequestOutput)
                    made = [self._sampled(completion) for completion in output.outputs]
                    # of equal ones, when nothing is left to chance, vLLM makes only the first
                    found[int(output.request_id)] = [
                        made[number % len(made)] for number in range(sampling.num_completions)
                    ]
        except Exception as error:  # noqa: BLE001 - whatever it was, requests are left half done in an engine that nobody can mend
            end_process(_ruined("generation", error))
        return found

    def load_weights(self, weights: Path | Mapping[str, Tensor], policy_version: int) -> None:
        """See `Engine`. Types may differ from the engine's and are converted."""
        if isinstance(weights, Path):
            with opened(weights) as source:
                shapes = {name: tuple(source.get_slice(name).get_shape()) for name in source.keys()}  # noqa: SIM118
                self._shapes.check(shapes, str(weights))
                self._replace(((name, source.get_tensor(name)) for name in shapes), policy_version)
        else:
            self._shapes.check({name: tuple(tensor.shape) for name, tensor in weights.items()}, "memory")
            self._replace(iter(weights.items()), policy_version)

    def tensors(self) -> Mapping[str, Tensor]:
        found: list[dict[str, Tensor]] = [{}]
        return (self._engine.collective_rpc("swarmd_tensors") if self._can_share else found)[0]

    def sleep(self) -> bool:
        if self._can_sleep and not self._asleep:
            try:
                if self.keeps_weights:
                    self._engine.sleep(level=2)
                else:  # vLLM's `release_kv_cache_memory` fails while a last batch is in flight, whose result nobody wants
                    self._engine.collective_rpc("discard", args=(("kv_cache", "workspace"),))
            except Exception as error:  # noqa: BLE001 - half asleep is neither
                end_process(_ruined("falling asleep", error))
            self._asleep = True
        return self._asleep and self.keeps_weights

    def _wait_for_weights(self) -> None:
        """Where the learner has written shared weights: it is done, and the cache has its memory again."""
        if self.keeps_weights:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # vLLM may compute on another stream than the learner
        if self._asleep:
            self._engine.collective_rpc("wake_up", args=(["kv_cache"],))  # with it wakes all but weights
            self._asleep = False

    def _replace(self, tensors: Iterator[tuple[str, Tensor]], policy_version: int) -> None:
        try:
            if self._asleep:
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                self._engine.wake_up(["weights"])
            with unpacked(self._can_share):
                self._engine.collective_rpc("swarmd_take_weights", args=(tensors,))
            if self._asleep:
                self._engine.wake_up(["kv_cache"])
                self._asleep = False
            if not self._engine.reset_prefix_cache():
                raise RuntimeError("the prefix cache could not be emptied")
            self._engine.set_weight_version(str(policy_version))
        except Exception as error:  # noqa: BLE001 - vLLM is left with a mixture of old, new and empty tensors
            end_process(_ruined("taking new weights", error))

    def _parameters(self, sampling: Sampling, index: int, room: int) -> "SamplingParams":
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        greedy = sampling.temperature < GREEDY_BELOW  # between it and 0.01 vLLM takes 0.01
        return SamplingParams(
            n=1 if greedy else sampling.num_completions,
            temperature=0.0 if greedy else sampling.temperature,
            max_tokens=room,
            seed=seed_of(sampling.seed, index),  # the completion's number is added to it
            stop_token_ids=self._eos_ids,
            logprobs=0,  # only the sampled token's
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _sampled(self, made: "CompletionOutput") -> Sampled:
        from vllm.logprobs import FlatLogprobs

        assert isinstance(made.logprobs, FlatLogprobs)  # as `_parameters` asks
        ids = list(made.token_ids)
        return Sampled(ids, list(made.logprobs.logprobs), bool(ids) and ids[-1] in self._eos_ids)


def seed_of(seed: int, index: int) -> int:
    """The seed of a prompt's first completion, its neighbours' being the next ones: far from those of every other prompt."""
    digest = hashlib.sha256(f"swarmd vllm {seed} {index}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 2


def _ruined(what: str, error: Exception) -> LocalError:
    kind = OutOfMemory if is_out_of_memory(error) else LocalError
    return kind(
        f"vLLM failed in {what}; the process ends, and another takes its place",
        f"{type(error).__name__}: {error}",
    )
