"""experiment.json: what is needed to repeat a run, and what must not be mixed."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from swarmd.errors import StateError
from swarmd.experiment.presets import PRESETS
from swarmd.experiment.running import provenance
from swarmd.experiment.running.provenance import commit, write_provenance
from swarmd.protocol.manifest import load_manifest

PRESET, MANIFEST = PRESETS["smoke"], load_manifest("tiny")


def test_the_first_run_is_told_with_everything_that_decides_its_figures(tmp_path: Path) -> None:
    assert write_provenance(tmp_path, PRESET, MANIFEST, ["swarmd", "experiment", "run"]) == []
    found = json.loads((tmp_path / "experiment.json").read_text())
    assert (found["preset"], found["runner"]) == ("smoke", "simulation")
    assert found["manifest"] == {"name": "tiny", "digest": MANIFEST.digest.hex()}
    assert found["command"] == ["swarmd", "experiment", "run"]
    assert set(found["versions"]) == {"swarmd", "python", "torch", "transformers", "reasoning_gym", "numpy"}
    assert "not installed" not in found["versions"].values()
    assert found["machine"]["cpu_count"] >= 1


def test_a_second_run_is_added_and_the_first_one_stays(tmp_path: Path) -> None:
    write_provenance(tmp_path, PRESET, MANIFEST, ["first"])
    assert write_provenance(tmp_path, PRESET, MANIFEST, ["second"]) == []
    found = json.loads((tmp_path / "experiment.json").read_text())
    assert found["command"] == ["first"]
    assert [run["command"] for run in found["runs"]] == [["first"], ["second"]]


def test_other_software_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_provenance(tmp_path, PRESET, MANIFEST, [])
    monkeypatch.setattr(provenance, "versions", lambda: {"torch": "9.9"})
    monkeypatch.setattr(provenance, "commit", lambda: "abc")
    first, second = write_provenance(tmp_path, PRESET, MANIFEST, [])
    assert first.startswith("torch was ")
    assert first.endswith(", now 9.9")
    assert second.endswith(", now abc")


@pytest.mark.parametrize(
    ("preset", "manifest", "said"),
    [
        (PRESETS["laptop"], MANIFEST, "preset smoke, now laptop"),
        (replace(PRESET, runner="processes"), MANIFEST, "runner simulation, now processes"),
        (PRESET, load_manifest("reasoning"), "another experiment: manifest"),
    ],
)
def test_another_experiment_does_not_get_into_the_same_folder(
    tmp_path: Path, preset: provenance.Preset, manifest: provenance.Manifest, said: str
) -> None:
    write_provenance(tmp_path, PRESET, MANIFEST, [])
    with pytest.raises(StateError, match=said):
        write_provenance(tmp_path, preset, manifest, [])


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text("{")
    with pytest.raises(StateError, match=r"cannot read .*experiment\.json"):
        write_provenance(tmp_path, PRESET, MANIFEST, [])


def test_outside_a_checkout_there_is_no_commit(tmp_path: Path) -> None:
    assert commit(tmp_path / "swarmd") is None


def test_a_checkouts_commit_says_when_files_differ_from_it(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("old")
    git("add", "file")
    git("commit", "-qm", "first")
    head = git("rev-parse", "HEAD")
    assert commit(tmp_path / "swarmd") == head
    (tmp_path / "file").write_text("new")
    assert commit(tmp_path / "swarmd") == f"{head}-dirty"
