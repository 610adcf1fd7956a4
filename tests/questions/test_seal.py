"""Sealing a manifest: the digests are computed in a process of their own, and written where they belong."""

import pytest

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.protocol.manifest import FOLDER, DatasetSpec, Manifest, load_manifest
from swarmd.questions.golden import golden
from swarmd.questions.regenerate import DatasetChoice, QuestionSource
from swarmd.questions.seal import goldens_of, seal_toml, sealed

A, B = "a" * 64, "b" * 64
DRAFT = b"""# mine
name = "mine"
prompt_template = '''
[[datasets]] are asked here: {question}'''
answer_format = "plain"
scorer_version = 2

[[datasets]]   # the first
name = "gcd"

# about the second
[[datasets]]
name = "lcm"
[datasets.params]
max_value = 20

[limits]
age_s_max = 60
"""


def test_the_digests_are_those_of_the_installed_package() -> None:
    manifest = Manifest.from_toml(DRAFT)
    sources = [QuestionSource(DatasetChoice(d.name, d.params, "exact")) for d in manifest.datasets]
    assert goldens_of(manifest) == [golden(source) for source in sources]


@pytest.mark.parametrize("name", ["tiny", "reasoning", "reasoning-paper"])
def test_shipped_manifests_are_sealed(name: str) -> None:
    data = (FOLDER / f"{name}.toml").read_bytes()
    assert seal_toml(data, goldens_of(load_manifest(name)), name) == data


def test_a_dataset_that_is_not_offered_cannot_be_sealed() -> None:
    draft = Manifest.from_toml(DRAFT).model_copy(update={"datasets": [DatasetSpec(name="countdown")]})
    with pytest.raises(IncompatibleSwarm, match="constant answer"):
        goldens_of(draft)


def test_only_the_lines_are_added() -> None:
    before, after = DRAFT.decode().splitlines(), seal_toml(DRAFT, [A, B], "x").decode().splitlines()
    assert [line for line in after if line not in (f'golden = "{A}"', f'golden = "{B}"')] == before
    assert after.index(f'golden = "{A}"') == after.index('name = "gcd"') + 1
    assert after.index(f'golden = "{B}"') == after.index('name = "lcm"') + 1


def test_sealing_again_replaces_the_digests() -> None:
    once = seal_toml(DRAFT, [A, B], "x")
    assert seal_toml(once, [A, B], "x") == once
    assert seal_toml(once, [B, A], "x") == seal_toml(DRAFT, [B, A], "x")
    assert Manifest.from_toml(once) == sealed(Manifest.from_toml(DRAFT), [A, B])


def test_where_there_is_no_safe_place_the_digests_are_named() -> None:
    inline = DRAFT[: DRAFT.index(b"[[datasets]]   ")] + b'datasets = [{ name = "gcd" }]\n'
    with pytest.raises(ConfigError, match=f'golden = "{A}"'):
        seal_toml(inline, [A], "x")
