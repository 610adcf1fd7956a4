"""Seeds: repeatable for one identity, unrelated between identities, swarms, purposes and numbers."""

import pytest

from swarmd.errors import ConfigError
from swarmd.experience.seeds import Seeds
from swarmd.loops.ask import choose_dataset, datasets_named
from swarmd.protocol.manifest import DatasetSpec
from tests.loops.parts import MANIFEST, ME, OTHER, Loops

A, B = b"a" * 32, b"b" * 32


def test_a_restarted_node_goes_on_with_the_same_draws() -> None:
    assert Seeds(A, MANIFEST.digest).rng("x", 5).random() == Seeds(A, MANIFEST.digest).rng("x", 5).random()


@pytest.mark.parametrize(
    "other",
    [
        Seeds(B, MANIFEST.digest).seed("sample", 1),
        Seeds(A, bytes(32)).seed("sample", 1),
        Seeds(A, MANIFEST.digest).seed("dataset", 1),
        Seeds(A, MANIFEST.digest).seed("sample", 2),
        Seeds(A, MANIFEST.digest + b"s").seed("ample", 1),
    ],
    ids=["identity", "swarm", "purpose", "number", "boundary"],
)
def test_everything_that_differs_makes_another_stream(other: int) -> None:
    assert Seeds(A, MANIFEST.digest).seed("sample", 1) != other


def test_seeds_fit_into_a_signed_integer() -> None:
    assert all(0 <= Seeds(A, B).seed("x", number) < 2**62 for number in range(200))


def test_datasets_are_drawn_by_their_weights() -> None:
    weights = [{**d.model_dump(), "weight": 8.0 if i == 2 else 1.0} for i, d in enumerate(MANIFEST.datasets)]
    manifest = MANIFEST.model_copy(update={"datasets": tuple(weights)})
    seeds = Seeds(A, manifest.digest)
    drawn = [choose_dataset(manifest, seeds.rng("dataset", number)) for number in range(2000)]
    assert set(drawn) == set(range(len(MANIFEST.datasets)))
    assert drawn.count(2) / len(drawn) == pytest.approx(8 / (7 + len(weights)), abs=0.05)


def test_some_datasets_are_drawn_by_the_same_weights() -> None:
    seeds = Seeds(A, MANIFEST.digest)
    drawn = [choose_dataset(MANIFEST, seeds.rng("dataset", number), [4, 1]) for number in range(400)]
    assert set(drawn) == {1, 4}
    assert drawn.count(4) / len(drawn) == pytest.approx(0.5, abs=0.1)


def test_a_name_stands_for_every_dataset_that_has_it() -> None:
    twice = MANIFEST.model_copy(update={"datasets": (*MANIFEST.datasets, DatasetSpec(name="products"))})
    assert datasets_named(twice, ["products"]) == [
        number for number, dataset in enumerate(twice.datasets) if dataset.name == "products"
    ]
    assert len(datasets_named(twice, ["products"])) == 2
    assert datasets_named(twice, []) == list(range(len(twice.datasets)))


def test_an_unknown_dataset_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'x'") as caught:
        datasets_named(MANIFEST, ["products", "x"])
    assert "spell_backward" in caught.value.why


async def asked(author: bytes, secret: bytes, num_batches: int) -> list[tuple[int, int]]:
    """Dataset and seed of a node's first questions."""
    ask = Loops().ask()
    ask.author, ask.seeds = author, Seeds(secret, MANIFEST.digest)
    return [(q.dataset, q.seed) for _ in range(num_batches) for q in await ask.questions(4)]


async def test_two_nodes_never_get_the_same_question() -> None:
    ours, theirs = await asked(ME.public_key, A, 50), await asked(OTHER.public_key, B, 50)
    assert len(set(ours)) == 200
    assert set(ours).isdisjoint(theirs)


async def test_one_identity_gets_the_same_questions_again() -> None:
    assert await asked(ME.public_key, A, 5) == await asked(ME.public_key, A, 5)
