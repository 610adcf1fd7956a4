"""How vLLM's engine is made: the arguments that it starts with, and the sizes of its cache."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from swarmd.garbage import set_aside, unsearched
from swarmd.policy.generation.vllm_process import inspected_here

if TYPE_CHECKING:
    from transformers import PretrainedConfig
    from vllm.v1.engine.llm_engine import LLMEngine

# Completions under way at once. The cache bounds them first unless they are short; at double, the sampler's buffers grow with it.
_SEQUENCES_MAX = 256
# Prompt tokens forwarded at once, longer prompts in parts. At double, activations take more memory beside a trainer; at half, long
# prompts take more passes.
_FORWARD_TOKENS_MAX = 4096
# Tokens to a block of the cache. On a CPU vLLM takes multiples of 32, and would by itself take 128, of which a short answer
# wastes most and shares none of its prompt.
_BLOCK_TOKENS = {"cpu": 32, "cuda": 16}


def cache_bytes_per_token(config: "PretrainedConfig", bytes_per_value: int) -> int:
    """Keys and values of one token in all layers."""
    text = config.get_text_config()
    num_heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    return int(2 * text.num_hidden_layers * num_heads * head_size(text) * bytes_per_value)


def head_size(config: "PretrainedConfig") -> int:
    """The size of one attention head."""
    text = config.get_text_config()
    return int(getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)


def open_llm(
    model_dir: Path,
    *,
    device: str,
    context_tokens_max: int,
    batch_tokens_max: int,
    can_sleep: bool,
) -> "LLMEngine":
    """vLLM's engine on a folder's model, with what `VllmEngine` asks of it. Raises whatever vLLM raises."""
    with unsearched():
        from transformers import AutoConfig
        from vllm import EngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.llm_engine import LLMEngine
    set_aside()

    kind = device.partition(":")[0]
    if kind == "cpu":
        # Its few compiled helpers would need a C++ compiler, and ten seconds at the first answer.
        type(current_platform).simple_compile_backend = "eager"
    config = AutoConfig.from_pretrained(model_dir, local_files_only=True)
    block = _BLOCK_TOKENS[kind]
    num_blocks = (
        -(-batch_tokens_max // block) + 2
    )  # vLLM keeps one to itself; the other, where a row ends in the middle of one
    arguments = EngineArgs(
        model=str(model_dir),
        skip_tokenizer_init=True,
        dtype="float32" if kind == "cpu" else "bfloat16",
        max_model_len=context_tokens_max,
        block_size=block,
        # Given in bytes, vLLM measures nothing first, and does not claim a share of the whole device.
        kv_cache_memory_bytes=num_blocks * block * cache_bytes_per_token(config, 4 if kind == "cpu" else 2),
        gpu_memory_utilization=0.01,
        max_num_seqs=_SEQUENCES_MAX,
        max_num_batched_tokens=max(_FORWARD_TOKENS_MAX, _SEQUENCES_MAX),
        enforce_eager=kind == "cpu",
        # Its own fifty sizes take ten seconds more at a start and hundreds of megabytes; a batch between two sizes is padded.
        cudagraph_capture_sizes=None if kind == "cpu" else _graph_sizes(),
        enable_sleep_mode=can_sleep,
        # The log-probs of what was sampled from: after the temperature. The folder's own sampling settings and further end tokens
        # are not taken over; the end tokens come with each request.
        logprobs_mode="processed_logprobs",
        generation_config="vllm",
        worker_extension_cls="swarmd.policy.generation.vllm_worker.TakesWeights",
        disable_log_stats=True,
    )
    with inspected_here():
        engine = LLMEngine.from_engine_args(arguments)
    # At every reload it would warn of the layers that have no weights of their own. Starting the engine sets all levels anew.
    logging.getLogger("vllm.model_executor.model_loader.reload.layerwise").setLevel(logging.ERROR)
    return engine


def _graph_sizes() -> list[int]:
    """The powers of two up to the most sequences that are generated at once."""
    return [1 << power for power in range(_SEQUENCES_MAX.bit_length())]
