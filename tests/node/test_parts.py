"""Building a node: what of its settings the swarm must agree with, found out before anything is started."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarmd.config import load_config
from swarmd.errors import ConfigError
from swarmd.files.datadir import DataDir
from swarmd.node.parts import Node, build
from swarmd.node.wiring import make_generate, make_update
from tests.loops.fakes import FakePolicy, FakeScorer
from tests.loops.parts import MANIFEST, inline

NAMES = [dataset.name for dataset in MANIFEST.datasets]


def built(folder: Path, said: list[str] | None = None, **flags: Any) -> Node:
    config = load_config(
        flags={"policy.device": "cpu", **{key.replace("__", "."): value for key, value in flags.items()}},
        environ={},
    )
    data_dir = DataDir(folder / "node")
    data_dir.root.mkdir(exist_ok=True)
    return build(config, data_dir, rounds_max=None, say=[].append if said is None else said.append)


@pytest.fixture
def specialised(tmp_path: Path) -> Iterator[Node]:
    """A node that asks two of the datasets, with fakes for its children."""
    node = built(tmp_path, questions__datasets="products, lcm")
    node.run_blocking = inline
    policy = FakePolicy()
    policy.info = policy.about()
    node.children.update(scorer=FakeScorer(node.manifest), generation=policy)  # type: ignore[dict-item]
    yield node
    node.buffer.close()


def asked(node: Node) -> set[str]:
    """Names of the datasets whose questions the scorer was asked for."""
    calls = node.children["scorer"].asked("questions")  # type: ignore[attr-defined]
    return {NAMES[address.dataset] for args in calls for address in args["addresses"]}


def test_a_node_asks_all_datasets_unless_told_otherwise(tmp_path: Path) -> None:
    said = list[str]()
    node = built(tmp_path, said)
    assert node.datasets == list(range(len(NAMES)))
    assert not any("only" in line for line in said)
    node.buffer.close()


async def test_a_specialised_node_asks_nothing_else(specialised: Node) -> None:
    generate = make_generate(specialised, None)
    for _ in range(8):
        await generate.once()
    assert asked(specialised) == {"products", "lcm"}


async def test_a_specialised_node_is_still_measured_on_everything(specialised: Node) -> None:
    evaluate = make_update(specialised).evaluations.evaluate
    assert evaluate is not None
    result = await evaluate.once(round=0)
    assert set(result["by_dataset"]) == set(NAMES)


def test_the_operator_is_told_what_a_specialised_node_asks(tmp_path: Path) -> None:
    said = list[str]()
    built(tmp_path, said, questions__datasets=["products", "lcm"]).buffer.close()
    assert "✓ questions  of lcm, products only" in said


@pytest.mark.parametrize("names", ["prodcuts", "products,prodcuts", "PRODUCTS", '["products", 3]'])
def test_a_dataset_that_the_swarm_does_not_have_is_refused_with_those_it_has(
    tmp_path: Path, names: str
) -> None:
    with pytest.raises(ConfigError, match="has no dataset") as caught:
        built(tmp_path, questions__datasets=names)
    assert all(name in caught.value.why for name in NAMES)
    assert not (tmp_path / "node" / "buffer.sqlite").exists()


@pytest.mark.parametrize("value", ["{}", "null", "true", "7"])
def test_what_is_no_list_of_names_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"valid tuple|has no dataset"):
        built(tmp_path, questions__datasets=value)


@pytest.mark.parametrize(
    "flags",
    [
        {"swarm.bootstrap": ["/ip4/1.2.3.4/tcp/4810"]},
        {"swarm.listen": "/ip4/1.2.3.4"},
        {"swarm.announce": "/ip4/0.0.0.0/tcp/4810"},
        {},
    ],
)
def test_an_address_that_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, flags: dict[str, object]
) -> None:
    place = tmp_path / "node"
    place.mkdir()
    if not flags:
        (place / "bootstrap.txt").write_text("hello")
    before = set(place.iterdir())
    with pytest.raises(ConfigError):
        built(tmp_path, **flags)
    assert set(place.iterdir()) == before


def test_a_node_alone_needs_no_sound_address(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "bootstrap.txt").write_text("hello")
    built(tmp_path, **{"swarm.solo": True}).buffer.close()
