"""Every prompt is short, every text comes back as it went in."""

import random
from itertools import product

import pytest
from transformers import AutoTokenizer

from swarmd.protocol.manifest import load_manifest
from swarmd.tiny import model_dir
from swarmd.tiny.corpus import MANNERS, examples
from swarmd.tiny.tokenizer import build_tokenizer, fixed_phrases

MANIFEST = load_manifest("tiny")
DATASETS = range(len(MANIFEST.datasets))


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(model_dir())


@pytest.mark.parametrize("dataset", DATASETS)
def test_prompts_are_short_and_round_trip(tokenizer, dataset):
    for example in examples(MANIFEST, dataset, 200, random.Random(1)):
        ids = tokenizer(example.prompt)["input_ids"]

        assert 5 <= len(ids) <= 20
        assert tokenizer.decode(ids) == example.prompt


@pytest.mark.parametrize("manner", [manner for manner, _ in MANNERS])
@pytest.mark.parametrize("dataset", DATASETS)
def test_answers_are_short_and_round_trip(tokenizer, dataset, manner):
    for example in examples(MANIFEST, dataset, 20, random.Random(2)):
        text = manner.format(answer=example.answer)
        ids = tokenizer(text)["input_ids"]

        assert len(ids) + 1 <= 16  # and the end token
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    "text", ["", " ", "é 日本 \x00\n\t", "a" * 1000, "State the final", "<answer></answer></answer>"]
)
def test_any_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_digits_and_tags_are_tokens_of_their_own(tokenizer):
    assert tokenizer.tokenize("<answer>-12/345</answer>") == ["<answer>", *"-12/345", "</answer>"]


def test_what_varies_is_no_phrase():
    words = ["".join(letters) for letters in product("aeiou", repeat=4)]
    prompts = [f"Spell: {word}!?" for word in words]

    assert fixed_phrases({"spell": prompts}) == ["!?", "Spell: "]


def test_no_prompts_give_no_phrases():
    assert fixed_phrases({"empty": []}) == []


def test_a_phrase_with_pattern_characters_is_one_token():
    tokenizer = build_tokenizer([". Why? (a+b) [c]\n"])

    assert len(tokenizer("1. Why? (a+b) [c]\n2")["input_ids"]) == 3
