"""Launch: where the roles run, what the children are started with, and when not to start at all."""

from pathlib import Path
from typing import Any

import pytest

from swarmd.config import Config, load_config
from swarmd.errors import ConfigError
from swarmd.files.datadir import DataDir
from swarmd.node.children import (
    child_specs,
    count_gpus,
    network_spec,
    place,
    weights_directory,
)
from swarmd.policy.model.resolve import resolve_model
from tests.loops.parts import MANIFEST

TINY = resolve_model("tiny")


def config(**flags: Any) -> Config:
    return load_config(flags={key.replace("__", "."): value for key, value in flags.items()}, environ={})


@pytest.mark.parametrize(
    ("wanted", "device", "num_gpus", "found"),
    [
        ("auto", "cpu", 0, ("shared", "cpu", "cpu")),
        ("auto", "cpu", 4, ("shared", "cpu", "cpu")),
        ("auto", "cuda", 1, ("shared", "cuda", "cuda")),
        ("auto", "cuda", 2, ("split", "cuda:0", "cuda:1")),
        ("auto", "cuda:3", 4, ("shared", "cuda:3", "cuda:3")),
        ("shared", "cuda", 4, ("shared", "cuda", "cuda")),
        ("split", "cpu", 0, ("split", "cpu", "cpu")),
        ("split", "cuda", 1, ("split", "cuda", "cuda")),
    ],
)
def test_roles_are_spread_only_over_what_is_there(
    wanted: str, device: str, num_gpus: int, found: tuple[str, str, str]
) -> None:
    placement = place(wanted, device, num_gpus)
    assert (placement.kind, placement.generation, placement.update) == found


def test_all_gpus_but_the_first_share_the_update() -> None:
    assert place("auto", "cuda", 2).update_devices == ("cuda:1",)
    assert place("auto", "cuda", 4).update_devices == ("cuda:1", "cuda:2", "cuda:3")
    assert place("auto", "cuda", 4, ("cuda:3", "cuda:2")).update == "cuda:3"
    assert place("auto", "cpu", 0).update_devices == ("cpu",)


@pytest.mark.parametrize(
    ("wanted", "num_gpus", "devices"),
    [
        ("shared", 4, ["cuda:1", "cuda:2"]),
        ("auto", 1, ["cuda:0"]),
        ("auto", 2, ["cuda:2"]),
        ("auto", 3, ["cuda:0", "cuda:1"]),
        ("auto", 3, ["cuda:1", "cuda:1"]),
    ],
)
def test_update_devices_that_cannot_be_are_the_operators_error(
    wanted: str, num_gpus: int, devices: list[str]
) -> None:
    with pytest.raises(ConfigError, match=r"update\.devices"):
        place(wanted, "cuda", num_gpus, devices)


@pytest.mark.parametrize(
    ("value", "found"), [("auto", ()), ("cuda:1, cuda:2", ("cuda:1", "cuda:2")), ("", ())]
)
def test_update_devices_are_a_list_or_auto(value: str, found: tuple[str, ...]) -> None:
    assert config(update__devices=value).update.devices == found


@pytest.mark.parametrize(("visible", "num"), [("0,1", 2), ("", 0), ("-1", 0), ("GPU-a, GPU-b,", 2)])
def test_only_visible_gpus_count(monkeypatch: pytest.MonkeyPatch, visible: str, num: int) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert count_gpus() == num


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert count_gpus(tmp_path / "nothing") == 0
    (tmp_path / "0000:01:00.0").mkdir()
    assert count_gpus(tmp_path) == 1


def test_the_policy_process_gets_all_settings_as_they_are_in_force(tmp_path: Path) -> None:
    given = config(policy__model="Qwen2.5-0.5B", update__epochs=3, checkpoint__keep=7)
    found = specs(tmp_path, policy__model="Qwen2.5-0.5B", update__epochs=3, checkpoint__keep=7)
    assert Config.model_validate_json(found["generation"]["config"]) == given


def specs(tmp_path: Path, kind: str = "shared", **flags: Any) -> dict[str, dict[str, Any]]:
    """What each child is started with."""
    found = child_specs(
        config(**flags),
        DataDir(tmp_path),
        seed=b"s" * 32,
        manifest=MANIFEST,
        model_dir=tmp_path,
        placement=place(kind, "cpu", 0),
    )
    return {name: spec.args() for name, spec in found.items()}


def test_one_child_has_both_roles_or_each_its_own(tmp_path: Path) -> None:
    assert specs(tmp_path)["generation"]["roles"] == ["generate", "update"]
    split = specs(tmp_path, "split")
    assert (split["generation"]["roles"], split["update"]["roles"]) == (["generate"], ["update"])


def test_a_node_alone_has_no_network_process(tmp_path: Path) -> None:
    assert set(specs(tmp_path)) == {"scorer", "generation", "network"}
    assert set(specs(tmp_path, swarm__solo=True)) == {"scorer", "generation"}


def test_only_the_network_process_gets_the_nodes_key(tmp_path: Path) -> None:
    holders = {name for name, args in specs(tmp_path, "split").items() if b"s" * 32 in args.values()}
    assert holders == {"network"}


def test_weights_that_a_killed_node_left_are_freed_at_its_next_start(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    left = weights_directory(data_dir, TINY, "peer-of-this-test")
    (left / "model.safetensors").write_bytes(b"x")
    other = weights_directory(data_dir, TINY, "another-of-this-test")
    now = weights_directory(data_dir, TINY, "peer-of-this-test")
    found = (left.exists(), other.is_dir(), now.is_dir())
    other.rmdir()
    now.rmdir()
    assert found == (False, True, True)


def test_libraries_cache_within_the_data_directory(tmp_path: Path) -> None:
    specs = child_specs(
        config(),
        DataDir(tmp_path),
        seed=b"s" * 32,
        manifest=MANIFEST,
        model_dir=tmp_path,
        placement=place("split", "cpu", 0),
    )
    assert {specs["generation"].env[f"VLLM_{what}_ROOT"] for what in ("CACHE", "CONFIG")} == {
        str(tmp_path / "cache")
    }


def test_a_network_process_begins_with_the_bans_of_that_moment(tmp_path: Path) -> None:
    banned = [b"a" * 32]
    spec = network_spec(
        config(), DataDir(tmp_path), tmp_path / "log", b"s" * 32, MANIFEST, lambda: list(banned)
    )
    first = spec.args()["banned"]
    banned.clear()
    assert (first, spec.args()["banned"]) == ([b"a" * 32], [])
