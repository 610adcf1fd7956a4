"""Weights on disk: what fits is copied, what does not changes nothing."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from swarmd.errors import DiskFull, StateError
from swarmd.policy.state.weights import FILE_NAME, load_weights, named_tensors, save_weights, write_tensors


class TiedModel(nn.Module):
    """An embedding that is also the head, and one matrix of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(6, 4)
        self.body = nn.Linear(4, 4, bias=False)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight


def copy_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_equal(model: nn.Module, wanted: dict[str, torch.Tensor]) -> None:
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in model.state_dict().items())


def test_saved_weights_come_back(tmp_path: Path) -> None:
    source, target = TiedModel(0), TiedModel(1)
    path = save_weights(source, tmp_path, 12)
    load_weights(target, path)
    assert path.name == "version-00000012"
    assert_equal(target, copy_of(source))
    assert target.head.weight is target.embed.weight


def test_only_the_latest_version_is_kept(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        save_weights(TiedModel(version), tmp_path, version)
    assert [path.name for path in tmp_path.iterdir()] == ["version-00000003"]


def test_the_file_is_plain_safetensors(tmp_path: Path) -> None:
    tensors = {
        "a": torch.arange(6.0).reshape(2, 3).t(),  # not contiguous
        "b": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "step": torch.tensor(3.0),
        "empty": torch.empty(0, 2),
    }
    write_tensors(tmp_path / "x.safetensors", tensors)
    found = load_file(tmp_path / "x.safetensors")
    assert set(found) == set(tensors)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def test_a_tied_tensor_is_written_once_and_may_stand_under_its_other_name(tmp_path: Path) -> None:
    source, target = TiedModel(0), TiedModel(1)
    tensors = named_tensors(source)
    assert set(tensors) == {"embed.weight", "body.weight"}
    save_file(
        {"head.weight": tensors["embed.weight"], "body.weight": tensors["body.weight"]},
        tmp_path / FILE_NAME,
    )
    load_weights(target, tmp_path)
    assert_equal(target, copy_of(source))


def broken(change: str) -> dict[str, torch.Tensor]:
    tensors = {name: tensor.clone() for name, tensor in named_tensors(TiedModel(0)).items()}
    if change == "missing":
        del tensors["body.weight"]
    elif change == "unknown":
        tensors["extra.weight"] = torch.zeros(1)
    elif change == "shape":
        tensors["body.weight"] = torch.zeros(4, 5)
    elif change == "dtype":
        tensors["body.weight"] = tensors["body.weight"].bfloat16()
    else:
        tensors["head.weight"] = tensors["embed.weight"] + 1
    return tensors


@pytest.mark.parametrize("change", ["missing", "unknown", "shape", "dtype", "unequal ties"])
def test_weights_that_do_not_fit_change_nothing(tmp_path: Path, change: str) -> None:
    model = TiedModel(1)
    before = copy_of(model)
    save_file(broken(change), tmp_path / FILE_NAME)
    with pytest.raises(StateError, match="do not fit"):
        load_weights(model, tmp_path)
    assert_equal(model, before)


@pytest.mark.parametrize("content", [None, b"", b"not tensors at all", b"\xff" * 64])
def test_an_unreadable_file_changes_nothing(tmp_path: Path, content: bytes | None) -> None:
    model = TiedModel(1)
    before = copy_of(model)
    if content is not None:
        (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StateError, match="cannot read weights"):
        load_weights(model, tmp_path)
    assert_equal(model, before)


def test_a_truncated_file_changes_nothing(tmp_path: Path) -> None:
    model = TiedModel(1)
    before = copy_of(model)
    file = save_weights(TiedModel(0), tmp_path, 1) / FILE_NAME
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(StateError):
        load_weights(model, file)
    assert_equal(model, before)


def test_a_full_disk_leaves_nothing_and_the_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_weights(TiedModel(0), tmp_path, 1)

    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("swarmd.policy.state.weights.os.fsync", full)
    with pytest.raises(DiskFull):
        save_weights(TiedModel(0), tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["version-00000001"]
