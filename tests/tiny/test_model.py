"""The embedded policy loads with stock transformers, is small, and seldom pleases the swarm at first."""

import json
import random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarmd.protocol.manifest import load_manifest
from swarmd.tiny import model_dir
from swarmd.tiny.corpus import examples

MANIFEST = load_manifest("tiny")
NUM_QUESTIONS, NUM_COMPLETIONS = 75, 8  # per dataset: 4,200 completions in all


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(model_dir())


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(model_dir())


@pytest.fixture(scope="module")
def success_rates(model, tokenizer) -> list[float]:
    """Share of rewarded completions of each dataset at temperature 1, by text comparison with the oracle."""
    torch.manual_seed(0)
    return [success_rate(model, tokenizer, dataset) for dataset in range(len(MANIFEST.datasets))]


def success_rate(model, tokenizer, dataset: int) -> float:
    asked = examples(MANIFEST, dataset, NUM_QUESTIONS, random.Random(3))
    prompts = tokenizer([e.prompt for e in asked], return_tensors="pt", padding=True)
    ids = model.generate(**prompts, max_new_tokens=16, num_return_sequences=NUM_COMPLETIONS)
    texts = tokenizer.batch_decode(ids[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    wanted = [f"<answer>{e.answer}</answer>" for e in asked for _ in range(NUM_COMPLETIONS)]
    return sum(want in text for want, text in zip(wanted, texts, strict=True)) / len(wanted)


def test_the_folder_is_at_most_4_megabytes():
    assert sum(path.stat().st_size for path in model_dir().iterdir()) <= 4_000_000


def test_the_folder_holds_no_code_and_no_pickle():
    assert {path.suffix for path in model_dir().iterdir()} == {".json", ".safetensors"}


def test_it_is_a_qwen2_decoder_of_under_a_million_parameters(model):
    assert model.config.architectures == ["Qwen2ForCausalLM"]
    assert model.num_parameters() < 1_000_000


def test_the_head_size_suits_vllm_on_a_cpu():
    config = json.loads((model_dir() / "config.json").read_text())

    assert config["head_dim"] % 32 == 0
    assert config["head_dim"] * config["num_attention_heads"] == config["hidden_size"]


def test_vocabularies_and_end_tokens_agree(model, tokenizer):
    assert model.config.vocab_size == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id


def test_success_is_rare_at_first(success_rates):
    assert 0.002 <= sum(success_rates) / len(success_rates) <= 0.02


def test_no_dataset_is_hopeless_or_easy(success_rates):
    assert all(0 < rate < 0.04 for rate in success_rates)
