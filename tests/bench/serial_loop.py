"""Generate, then update, as a serial loop does it: `transformers.generate` on the whole padded batch, TRL 1.16's update, one model.

Speaks as `PolicyService` does, so that `bench_round` drives both through the same socket with the same requests.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from swarmd.clients.policy import Generated, OwnCompletion, Save, State
from swarmd.config import Config
from swarmd.experience.rollouts import ScoredRollout
from swarmd.policy.model.loading import context_tokens_max, load_model, load_tokeniser
from swarmd.policy.training_set import token_rollouts
from tests.bench.trl_update import TrlOptions, TrlUpdate


class SerialLoop:
    """One policy in one process.

    Args:
        emit: unused.
        model_dir: a Hugging Face folder.
        micro_batch: TRL's `per_device_train_batch_size`; everything else is tuned as `bench_update` says.
        config: a `Config` in JSON.
    """

    OPS = frozenset({"generate", "update"})

    def __init__(
        self,
        emit: object,
        *,
        model_dir: str,
        micro_batch: int,
        config: str,
    ) -> None:
        self._model_dir, self._micro_batch = Path(model_dir), micro_batch
        self._config = Config.model_validate_json(config)

    def start(self) -> dict[str, Any]:
        torch.set_num_threads(1)
        self._tokeniser = load_tokeniser(self._model_dir)
        self._model = load_model(self._model_dir, "cpu")
        self._trl = TrlUpdate(self._model, TrlOptions(self._micro_batch))
        return {}

    def generate(
        self, prompts: Sequence[str], num_completions: int, temperature: float, tokens_max: int, seed: int
    ) -> Generated:
        """All completions in one call, the prompts padded on the left; sampled from the whole distribution, as ours are."""
        started = time.perf_counter()
        torch.manual_seed(seed)
        prompt_ids = [self._tokeniser.prompt_ids(prompt) for prompt in prompts]
        width = max(map(len, prompt_ids))
        pad = self._model.generation_config.pad_token_id
        ids = torch.tensor([[pad] * (width - len(own)) + own for own in prompt_ids])
        mask = torch.tensor([[0] * (width - len(own)) + [1] * len(own) for own in prompt_ids])
        self._model.eval()
        rows = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            temperature=temperature,
            top_k=0,
            top_p=1.0,
            max_new_tokens=tokens_max,
            num_return_sequences=num_completions,
        )[:, width:]
        self._model.train()
        completions = [self._completion(row) for row in rows.tolist()]
        rows_RG = [
            completions[start : start + num_completions]
            for start in range(0, len(completions), num_completions)
        ]
        num_prompt_tokens = sum(map(len, prompt_ids))
        return Generated(0, rows_RG, num_prompt_tokens, time.perf_counter() - started, 0.0)

    def update(
        self, rollouts: Sequence[ScoredRollout], round: int, state: State, save: Save
    ) -> dict[str, Any]:
        started = time.perf_counter()
        training_set = token_rollouts(
            rollouts, self._tokeniser, self._config, context_tokens_max(self._model.config)
        )
        self._trl.backward(training_set)
        self._trl.step()
        return {"seconds": time.perf_counter() - started}

    def _completion(self, row: list[int]) -> OwnCompletion:
        ends = self._model.generation_config.eos_token_id
        length = next((place + 1 for place, token in enumerate(row) if token in ends), None)
        finished, ids = length is not None, row[:length]
        return OwnCompletion("", finished, tuple(ids), logprob_sum=None, token_logps=None)
