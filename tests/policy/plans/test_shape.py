"""Shapes: what transformers would build, without building it."""

from pathlib import Path
from typing import Any

import pytest

from swarmd.policy.model.resolve import resolve_model
from swarmd.policy.plans.shape import read_shape, shape_of
from tests.policy.plans.shapes import QWEN_05B, half_billion

LLAMA_1B = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True,
}  # fmt: skip
QWEN3_06B = {
    "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True,
}  # fmt: skip
QWEN_7B = {
    **QWEN_05B, "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "published"),
    [(QWEN_05B, 494_032_768), (LLAMA_1B, 1_235_814_400), (QWEN3_06B, 596_049_920), (QWEN_7B, 7_615_616_512)],
    ids=["qwen2.5-0.5b", "llama-3.2-1b", "qwen3-0.6b", "qwen2.5-7b"],
)
def test_parameters_are_those_that_the_makers_publish(config: dict[str, Any], published: int) -> None:
    shape = shape_of(config)
    assert shape is not None
    assert (shape.num_parameters, shape.counted) == (published, False)


def test_the_headers_of_the_weights_decide() -> None:
    tiny = resolve_model("tiny")
    shape = read_shape(tiny)
    assert shape is not None
    assert (shape.num_parameters, shape.counted) == (tiny.num_parameters, True)
    assert shape_of(tiny.config) is not None


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_that_the_config_does_not_mention_shows_in_the_headers(tied: bool) -> None:
    config = {key: value for key, value in QWEN_05B.items() if key != "tie_word_embeddings"}
    head = 0 if tied else QWEN_05B["vocab_size"] * QWEN_05B["hidden_size"]
    shape = shape_of(config, num_parameters=half_billion().num_parameters + head)
    assert shape is not None
    assert shape.tied is tied


@pytest.mark.parametrize("missing", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_a_config_without_sizes_has_no_shape(missing: str) -> None:
    assert shape_of({key: value for key, value in QWEN_05B.items() if key != missing}) is None


def test_a_size_that_is_no_number_is_none() -> None:
    assert shape_of({**QWEN_05B, "hidden_size": "large"}) is None


def test_other_names_for_the_same_sizes() -> None:
    gpt2 = {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}
    shape = shape_of(gpt2, num_parameters=124_439_808)
    assert shape is not None
    assert (shape.hidden, shape.intermediate, shape.num_kv_heads, shape.tied) == (768, 3072, 12, True)


def test_a_token_in_the_cache_of_half_a_billion() -> None:
    assert half_billion().kv_bytes_per_token(2) == 12 * 1024  # 2 x 24 layers x 2 heads x 64 x 2 bytes


def test_nothing_is_read_where_nothing_is(tmp_path: Path) -> None:
    hub = resolve_model("tiny").__class__("x", "hub", None, "a/x", "0", "XForCausalLM", True, None)
    assert read_shape(hub) is None
