"""Building again gives the same bytes; held-out questions are never trained on."""

import random
from dataclasses import replace

import pytest

from swarmd.protocol.manifest import load_manifest
from swarmd.tiny import model_dir
from swarmd.tiny.build import build, pad, schedule
from swarmd.tiny.corpus import LESSONS, MANNERS, Example, completions, examples
from swarmd.tiny.recipe import Recipe
from swarmd.tiny.tokenizer import build_tokenizer

MANIFEST = load_manifest(LESSONS)
SHORT = Recipe(num_steps=3, num_examples=200, batch_size=8)


def built(directory, recipe: Recipe) -> dict[str, bytes]:
    build(directory, recipe, MANIFEST, say=lambda text: None)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_short_build_repeats(tmp_path):
    assert built(tmp_path / "a", SHORT) == built(tmp_path / "b", SHORT)


def test_another_seed_gives_other_weights(tmp_path):
    first, second = built(tmp_path / "a", SHORT), built(tmp_path / "b", replace(SHORT, seed=1))

    assert first["model.safetensors"] != second["model.safetensors"]


@pytest.mark.slow
def test_the_full_build_gives_the_tokenizer_that_ships_and_repeats(tmp_path):
    first, second = built(tmp_path / "a", Recipe()), built(tmp_path / "b", Recipe())

    assert first == second
    assert first["tokenizer.json"] == (model_dir() / "tokenizer.json").read_bytes()


def test_no_example_is_held_out():
    for dataset in range(len(MANIFEST.datasets)):
        for example in examples(MANIFEST, dataset, 20, random.Random(0)):
            assert not MANIFEST.is_held_out(example.prompt)


def test_shares_of_the_manners_add_up():
    assert sum(share for _, share in MANNERS) == pytest.approx(1)


def test_completions_carry_the_right_answer():
    texts = list(completions([Example(0, "1 + 1", "2")] * 50, random.Random(0)))

    assert all("2" in text for text in texts)


def test_only_the_answer_and_its_end_are_targets():
    tokenizer = build_tokenizer([])
    prompt, answer = tokenizer("ab")["input_ids"], tokenizer("xyz")["input_ids"]

    _, targets = pad([prompt, prompt], [answer, answer[:1]], tokenizer)

    assert targets.tolist() == [
        [-100, *answer, tokenizer.eos_token_id],
        [-100, answer[0], tokenizer.eos_token_id, -100, -100],
    ]


def test_the_learning_rate_rises_then_falls():
    assert schedule(0) == 0
    assert schedule(0.05) > schedule(0.5) > schedule(0.99) > 0
