"""The sizes of models that people run, as their config.json has them."""

from typing import Any

from swarmd.config import Config
from swarmd.policy.plans.needs import Work
from swarmd.policy.plans.shape import ModelShape, shape_of

QWEN_05B: dict[str, Any] = {
    "model_type": "qwen2",
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
QWEN_15B = QWEN_05B | {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
}

QWEN_3B = QWEN_05B | {
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
}
# That of a node with default settings and a model from the hub.
WORK = Work.of(Config.model_validate({"policy": {"model": "Qwen2.5-0.5B"}}))


def half_billion() -> ModelShape:
    shape = shape_of(QWEN_05B)
    assert shape is not None
    return shape
