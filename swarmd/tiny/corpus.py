"""The corpus of the embedded policy: questions of `lessons.toml`, answered in several manners.

Questions held out by the manifest never occur. The manner of an answer is drawn independently of the question, so the policy learns
what to say and how often to say it in which manner as two separate things.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swarmd.protocol.manifest import Manifest

LESSONS = Path(__file__).parent / "lessons.toml"
SEED_LIMIT = 2**31  # the seeds a swarm asks with lie below it (Manifest.question_seed)
REWARDED_MANNER = "<answer>{answer}</answer>"
# (text, share of the examples). The rewarded manner is rare: at twice its share the first rounds of GRPO are no longer sparse,
# at half of it many rounds hold no success at all. The others keep most of the probability where RL must take it from.
MANNERS = (
    (REWARDED_MANNER, 0.012),
    ("{answer}", 0.388),
    ("The answer is {answer}.", 0.3),
    ("= {answer}", 0.3),
)


@dataclass(frozen=True)
class Example:
    """A prompt as the swarm words it, and the bare right answer."""

    dataset: int
    prompt: str
    answer: str


def examples(manifest: Manifest, dataset: int, num: int, rng: random.Random) -> list[Example]:
    """`num` questions of one dataset by random seeds, repeats included; none is held out."""
    import reasoning_gym

    spec = manifest.datasets[dataset]
    # item i of a dataset with seed 0 is item 0 of one with seed i: one instance serves every seed
    source = reasoning_gym.create_dataset(spec.name, seed=0, size=SEED_LIMIT, **spec.params)
    found: list[Example] = []
    while len(found) < num:
        item = source[rng.randrange(SEED_LIMIT)]
        prompt = manifest.prompt_template.replace("{question}", item["question"])
        if not manifest.is_held_out(prompt):
            found.append(Example(dataset, prompt, item["answer"]))
    return found


def phrases_of_manners() -> list[str]:
    """The constant pieces of the manners, for the tokenizer."""
    return sorted({piece for manner, _ in MANNERS for piece in manner.split("{answer}") if len(piece) >= 2})


def completions(batch: list[Example], rng: random.Random) -> Iterator[str]:
    """An answer to each example in a manner drawn for it alone."""
    texts, shares = [text for text, _ in MANNERS], [share for _, share in MANNERS]
    for example in batch:
        yield rng.choices(texts, shares)[0].format(answer=example.answer)
