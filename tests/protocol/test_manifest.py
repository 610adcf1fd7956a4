"""Manifests: what ships loads, equal ones have equal bytes, questions cannot be chosen, bad files are explained."""

import hashlib

import msgpack
import pytest

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.protocol.manifest import FOLDER, DatasetSpec, Manifest, load_manifest
from tests.protocol.craft import ALICE, MALLORY, MANIFEST

TOML = b"""
name = "mine"
prompt_template = "{question}"
answer_format = "plain"
scorer_version = 1
datasets = [{ name = "gcd", params = { b = 1, a = [1, "x"] } }, { name = "lcm", weight = 2 }]
[limits]
age_s_max = 60
"""


def changed(old: bytes, new: bytes) -> bytes:
    assert old in TOML
    return TOML.replace(old, new)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_manifest_loads(path):
    manifest = load_manifest(path.stem)
    assert manifest.name == path.stem
    assert all(spec.golden for spec in manifest.datasets)
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


@pytest.mark.parametrize(("name", "reward"), [("reasoning", "exact"), ("reasoning-paper", "upstream")])
def test_reasoning_is_the_papers_nine_at_equal_weight(name, reward):
    datasets = load_manifest(name).datasets
    assert {d.reward for d in datasets} == {reward}
    assert [d.name for d in datasets] == [
        "base_conversion",
        "basic_arithmetic",
        "arc_1d",
        "bf",
        "propositional_logic",
        "fraction_simplification",
        "decimal_arithmetic",
        "calendar_arithmetic",
        "binary_matrix",
    ]
    assert {d.weight for d in datasets} == {1.0}
    assert [d.params["difficulty"] for d in datasets if d.name == "bf"] == [1]


def test_a_file_is_loaded_by_its_path(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(TOML)
    assert load_manifest(str(path)) == Manifest.from_toml(TOML)


@pytest.mark.parametrize(
    "name", ["no-such-swarm", "/no/such/file.toml", "../manifests/tiny", "", "/dev/zero", "a\0b"]
)
def test_an_unknown_name_is_a_configuration_error(name):
    with pytest.raises(ConfigError, match="no manifest"):
        load_manifest(name)


def test_order_and_spelling_of_the_file_leave_no_trace():
    other = changed(b'{ b = 1, a = [1, "x"] }', b'{ a = [1, "x"], b = 1 }').replace(
        b"weight = 2", b"weight = 2.0"
    )
    assert Manifest.from_toml(other).digest == Manifest.from_toml(TOML).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"b = 1", b"b = 2"),
        (b"b = 1", b"b = 1.0"),
        (b"b = 1", b"b = true"),
        (b"weight = 2", b"weight = 3"),
        (b"weight = 2", b'weight = 2, golden = "' + b"0" * 64 + b'"'),
        (b"age_s_max = 60", b"age_s_max = 61"),
        (b'"{question}"', b'"{question} "'),
        (b"scorer_version = 1", b"scorer_version = 2"),
        (b'name = "mine"', b'name = "yours"'),
        (b'name = "mine"', b'name = "mine"\nepoch = 1'),
        (b'name = "mine"', b'name = "mine"\nheld_out_per_mille = 49'),
    ],
)
def test_whatever_differs_changes_digest_and_topic(old, new):
    one, two = Manifest.from_toml(TOML), Manifest.from_toml(changed(old, new))
    assert one.digest != two.digest
    assert one.topic != two.topic


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"[limits]", b"[limits"),
        (b"[limits]", b"[limits]\nunknown = 1"),
        (b'"{question}"', b'"no place"'),
        (b'"{question}"', b'"{question}{question}"'),
        (b'name = "mine"', b'name = "Mine/../x"'),
        (b'name = "mine"\n', b""),
        (b'name = "gcd"', b'name = "../gcd"'),
        (b"weight = 2", b"weight = 0"),
        (b"weight = 2", b"weight = inf"),
        (b"weight = 2", b"weight = true"),
        (b"b = 1", b"b = nan"),
        (b"b = 1", b"b = 9007199254740993"),
        (b"b = 1", b"b = { c = 1 }"),
        (b"age_s_max = 60", b"age_s_max = 60.0"),
        (b"age_s_max = 60", b"message_bytes_max = 65536"),
        (b"age_s_max = 60", b"completions_min = 9\ncompletions_max = 8"),
        (b'"plain"', b'"xml"'),
        (b'name = "mine"', b'name = "mine"\nversion = 0'),
        (b'{ name = "gcd"', b'{ golden = "abc", name = "gcd"'),
        (b'{ name = "gcd"', b'{ golden = "' + b"A" * 64 + b'", name = "gcd"'),
        (b'name = "mine"', b'name = "\xff"'),
    ],
)
def test_a_bad_file_is_a_configuration_error(old, new):
    with pytest.raises(ConfigError):
        Manifest.from_toml(changed(old, new))


def test_a_newer_format_asks_for_an_upgrade():
    with pytest.raises(IncompatibleSwarm, match="version 3"):
        Manifest.from_toml(b"version = 3\n" + TOML)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        MANIFEST.to_bytes() + b"\x00",
        MANIFEST.to_bytes()[:-1],
        msgpack.packb([1]),
        msgpack.packb(MANIFEST.model_dump()),
        bytes(65_537),
    ],
    ids=["empty", "no msgpack", "a byte too many", "cut", "an array", "not canonical", "too large"],
)
def test_other_bytes_than_ours_are_refused(data):
    with pytest.raises(ConfigError):
        Manifest.from_bytes(data)


def test_a_question_depends_on_every_part_of_its_address():
    other = MANIFEST.model_copy(update={"epoch": 1})
    seeds = [
        MANIFEST.question_seed(ALICE.public_key, 0, 0),
        MANIFEST.question_seed(MALLORY.public_key, 0, 0),
        MANIFEST.question_seed(ALICE.public_key, 1, 0),
        MANIFEST.question_seed(ALICE.public_key, 0, 1),
        other.question_seed(ALICE.public_key, 0, 0),
    ]
    assert len(set(seeds)) == 5


def test_seeds_fill_their_range():
    seeds = {MANIFEST.question_seed(ALICE.public_key, 0, counter) for counter in range(2000)}
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)
    assert len(seeds) > 1990
    assert max(seeds) > 0.99 * 2**31


@pytest.mark.parametrize(
    ("author", "dataset", "counter"),
    [
        (b"", 0, 0),
        (bytes(33), 0, 0),
        (bytes(32), 2, 0),
        (bytes(32), -1, 0),
        (bytes(32), 0, -1),
        (bytes(32), 0, 2**53),
    ],
)
def test_an_impossible_address_has_no_question(author, dataset, counter):
    with pytest.raises(ValueError):
        MANIFEST.question_seed(author, dataset, counter)


def test_the_share_held_out_is_the_share_asked_for():
    prompts = [f"prompt {i}" for i in range(20_000)]
    share = sum(map(MANIFEST.is_held_out, prompts)) / len(prompts)
    assert 0.045 < share < 0.055


@pytest.mark.parametrize(("per_mille", "expected"), [(0, 0), (500, 0.5)])
def test_the_extremes_of_holding_out(per_mille, expected):
    manifest = MANIFEST.model_copy(update={"held_out_per_mille": per_mille})
    share = sum(manifest.is_held_out(str(i)) for i in range(4000)) / 4000
    assert abs(share - expected) < 0.03


def test_a_prompt_is_the_template_with_the_question():
    assert MANIFEST.render("1 + {answer}?") == "1 + {answer}?\nAnswer in <answer> tags."


def test_the_topic_names_swarm_and_digest():
    digest = hashlib.sha256(b"swarmd/1/manifest\x00" + MANIFEST.to_bytes()).hexdigest()
    assert MANIFEST.topic == f"/swarmd/1/vectors/{digest[:16]}"


def test_a_dataset_may_occur_with_two_configurations():
    two = (DatasetSpec(name="bf", params={"difficulty": 1}), DatasetSpec(name="bf"))
    assert len(Manifest.model_validate(MANIFEST.model_dump() | {"datasets": two}).datasets) == 2


def test_a_changed_copy_has_its_own_digest_and_is_checked():
    assert MANIFEST.digest != MANIFEST.model_copy(update={"epoch": 1}).digest
    with pytest.raises(ValueError, match="epoch"):
        MANIFEST.model_copy(update={"epoch": -1})


@pytest.mark.parametrize(
    "document",
    [
        b"a = " + b"[" * 3000,
        b"a = " + b"{a = " * 900,
        b"a" + b".b" * 3000 + b" = 1",
        b"version = " + b"9" * 5000,
        b"version = 0x" + b"f" * 5000,
        b'"\x1b[31m\xe2\x80\xae" = 1',
        b"name = '\x7f'",
        b'name = "' + b"x" * 1_000_000 + b'"',
    ],
)
def test_a_hostile_document_gets_a_short_and_printable_error(document):
    with pytest.raises(ConfigError) as caught:
        Manifest.from_toml(document)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\xa4name" + b"\x91" * 1000 + b"\xc0",
        b"\x91" * 1000 + b"\xc0",
        b"\x91" * 3000,
        b"\x81\xa5\x1b[31m\xc0",
    ],
)
def test_hostile_bytes_get_a_short_and_printable_error(data):
    with pytest.raises(ConfigError) as caught:
        Manifest.from_bytes(data)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).replace("\n", "").isprintable()
