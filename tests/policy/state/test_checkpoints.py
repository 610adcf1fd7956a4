"""Checkpoints: complete or absent, checked before use, and never lost to a crash, a full disk or a flipped bit."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmd.errors import DiskFull, StateError
from swarmd.policy.state import checkpoints
from swarmd.policy.state.checkpoints import Content, newest_valid, read_state, recover


def save(directory: Path, version: int, *, keep: int = 2, **state: Any) -> str:
    content = Content(
        round=version,
        policy_version=version,
        model="tiny",
        weights={"w": torch.full((3, 4), float(version))},
        optimizer={"step/w": torch.tensor(float(version))},
        state={"round": version, **state},
    )
    return checkpoints.save(directory, content, keep=keep)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def test_the_newest_comes_back_with_its_state(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 12, used={"peer": 3})
    found = newest_valid(tmp_path)
    assert found.path == tmp_path / "round-00000012"
    assert (found.policy_version, found.model, found.skipped) == (12, "tiny", ())
    assert found.state == read_state(tmp_path) == {"round": 12, "used": {"peer": 3}}
    assert checkpoints.read_optimizer(found.path)["step/w"].item() == 12


def test_only_the_last_few_are_kept(tmp_path: Path) -> None:
    for version in range(5):
        save(tmp_path, version, keep=3)
    assert names(tmp_path) == ["round-00000002", "round-00000003", "round-00000004"]


@pytest.mark.parametrize("directory", ["", "missing"])
def test_without_a_checkpoint_there_is_none(tmp_path: Path, directory: str) -> None:
    assert newest_valid(tmp_path / directory).path is None
    assert recover(tmp_path / directory).path is None
    assert read_state(tmp_path / directory) is None


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_flipped_bit_falls_back_and_says_so(tmp_path: Path, file: str) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    flip_a_bit(tmp_path / "round-00000002" / file)
    found = newest_valid(tmp_path)
    assert found.policy_version == 1
    assert found.skipped == (f"round-00000002: {file} is not what was written (SHA-256 differs)",)


@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"]
)
@pytest.mark.parametrize("harm", ["removed", "truncated"])
def test_a_missing_or_short_file_falls_back(tmp_path: Path, file: str, harm: str) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / "round-00000002" / file
    path.unlink() if harm == "removed" else os.truncate(path, path.stat().st_size - 5)
    assert newest_valid(tmp_path).policy_version == 1
    assert read_state(tmp_path) == {"round": 1}


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 1, "files": {"state.json": 3}}', "{"])
def test_a_nonsensical_manifest_falls_back(tmp_path: Path, text: str) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "round-00000002" / "manifest.json").write_text(text)
    assert newest_valid(tmp_path).policy_version == 1


def test_when_all_are_damaged_each_is_named(tmp_path: Path) -> None:
    for version in (1, 2):
        save(tmp_path, version)
        flip_a_bit(tmp_path / f"round-{version:08d}" / "model.safetensors")
    found = newest_valid(tmp_path)
    assert found.path is None
    assert [line.partition(":")[0] for line in found.skipped] == ["round-00000002", "round-00000001"]


def test_recovery_sets_a_damaged_one_aside_so_that_its_number_is_free(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    flip_a_bit(tmp_path / "round-00000002" / "model.safetensors")
    assert recover(tmp_path).policy_version == 1
    assert names(tmp_path) == ["damaged-round-00000002", "round-00000001"]
    save(tmp_path, 2)
    assert names(tmp_path) == ["round-00000001", "round-00000002"]


def test_recovery_removes_what_a_crash_left(tmp_path: Path) -> None:
    save(tmp_path, 1)
    shutil.copytree(tmp_path / "round-00000001", tmp_path / ".tmp-round-00000002")
    found = recover(tmp_path)
    assert found.policy_version == 1
    assert found.skipped == ("removed unfinished round-00000002",)
    assert names(tmp_path) == ["round-00000001"]


def test_recovery_restores_one_that_was_caught_being_replaced(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "round-00000001").rename(tmp_path / ".old-round-00000001")
    assert recover(tmp_path).policy_version == 1
    assert names(tmp_path) == ["round-00000001"]


def test_the_same_version_can_be_saved_again_with_another_state(tmp_path: Path) -> None:
    save(tmp_path, 1, round=7)
    save(tmp_path, 1, round=8)
    assert names(tmp_path) == ["round-00000001"]
    assert read_state(tmp_path) == {"round": 8}


def no_space(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("place", ["weights.os.fsync", "durable.os.fsync", "weights.open"])
def test_a_full_disk_costs_no_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    with monkeypatch.context() as patch:
        patch.setattr(f"swarmd.policy.state.{place}", no_space, raising=False)
        with pytest.raises(DiskFull, match="round-00000003"):
            save(tmp_path, 3)
    assert names(tmp_path) == ["round-00000001", "round-00000002"]
    assert newest_valid(tmp_path).policy_version == 2


def test_too_little_space_is_refused_before_a_byte_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10 * 2**20)
    monkeypatch.setattr("swarmd.policy.state.durable.shutil.disk_usage", lambda _: usage)
    with pytest.raises(DiskFull, match="10 MiB are free"):
        save(tmp_path, 1)
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_an_error_of_state(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot write"):
        save(tmp_path / "file" / "checkpoints", 1)


def test_a_later_programs_checkpoint_is_refused_not_skipped(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "round-00000002" / "manifest.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(StateError, match="format 2"):
        newest_valid(tmp_path)


def test_looking_at_the_state_loads_no_torch(tmp_path: Path) -> None:
    save(tmp_path, 3)
    code = (
        "import sys; from pathlib import Path; from swarmd.policy.state.checkpoints import recover, read_state\n"
        f"assert read_state(Path({str(tmp_path)!r})) == recover(Path({str(tmp_path)!r})).state == {{'round': 3}}\n"
        "assert not {'torch', 'safetensors', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("at", ["before", "between", "after"])
def test_a_kill_at_any_moment_of_a_save_leaves_a_good_checkpoint(tmp_path: Path, at: str) -> None:
    save(tmp_path, 1, round=1)
    renames = {"before": 0, "between": 1, "after": 2}[at]
    code = (
        "import os, sys, torch; from pathlib import Path; from swarmd.policy.state import checkpoints\n"
        f"left = [{renames}]; rename = Path.rename\n"
        "def dying(self, target):\n"
        "    if left[0] == 0: os._exit(9)\n"
        "    left[0] -= 1\n"
        "    return rename(self, target)\n"
        "Path.rename = dying; rmtree = checkpoints.shutil.rmtree\n"
        "def dying_rmtree(path, **k):\n"
        "    if left[0] == 0 and '.old-' in str(path): os._exit(9)\n"
        "    rmtree(path, **k)\n"
        "checkpoints.shutil.rmtree = dying_rmtree\n"
        "content = checkpoints.Content(1, 1, 'tiny', {'w': torch.zeros(3)}, {}, {'round': 2})\n"
        f"checkpoints.save(Path({str(tmp_path)!r}), content)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    found = recover(tmp_path)
    assert found.state == {"round": 2 if at == "after" else 1}
    assert names(tmp_path) == ["round-00000001"]


@pytest.mark.parametrize("num_files", [0, 1, 3])
def test_a_kill_inside_the_removal_of_an_old_one_leaves_no_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_files: int
) -> None:
    for version in (1, 2):
        save(tmp_path, version)
    rmtree = shutil.rmtree

    def dying(path: Path, **options: Any) -> None:
        if not list(Path(path).glob("*")) or Path(path).name.startswith(".tmp-"):
            return rmtree(path, **options)
        for file in sorted(Path(path).iterdir())[:num_files]:
            file.unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", dying)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 3)
    monkeypatch.undo()
    found = recover(tmp_path)
    assert (found.policy_version, found.skipped) == (3, ())
    assert names(tmp_path) == ["round-00000002", "round-00000003"]
