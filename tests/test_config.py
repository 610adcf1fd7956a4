"""Settings: which source wins, what is refused, and what the refusal says."""

from pathlib import Path
from typing import Any

import pytest

from swarmd.config import Config, known_keys, load_config, reference
from swarmd.errors import ConfigError

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "config.md"


@pytest.fixture(autouse=True)
def _no_system_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("swarmd.config.load.SYSTEM_FILE", tmp_path / "etc" / "config.toml")


def load(environ: dict[str, str] | None = None, **options: Any) -> Config:
    return load_config(**{"flags": {}, "environ": environ or {}, **options})


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("value", ["0", "-1", "65", "2.5", "many"])
def test_dynamic_sampling_has_a_bound(value: str) -> None:
    with pytest.raises(ConfigError, match="dynamic_sampling"):
        load(flags={"experience.dynamic_sampling": value})


def test_without_anything_the_defaults_hold() -> None:
    assert load() == Config()


def test_the_nearer_source_wins(tmp_path: Path) -> None:
    write(
        tmp_path / "etc" / "config.toml",
        "[experience]\nmix = '1/1'\ncompletions = 2\nuses_max = 5\nage_s_max = 7\n",
    )
    write(tmp_path / "config.toml", "[experience]\nmix = '2/2'\ncompletions = 3\nuses_max = 6\n")
    environ = {"SWARMD_EXPERIENCE__MIX": "3/3", "SWARMD_EXPERIENCE__COMPLETIONS": "4"}
    found = load(environ, flags={"experience.mix": "4/0"}, data_dir=tmp_path).experience
    assert (found.mix, found.completions, found.uses_max, found.age_s_max) == ("4/0", 4, 6, 7)


def test_a_file_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    write(tmp_path / "config.toml", "[experience]\nuses_max = 6\n")
    named = write(tmp_path / "other.toml", "[experience]\ncompletions = 3\n")
    found = load(path=named, data_dir=tmp_path).experience
    assert (found.completions, found.uses_max) == (3, 1)


@pytest.mark.parametrize(
    "text", ["/ip4/1.2.3.4/tcp/1/p2p/a, /ip4/1.2.3.4/tcp/2/p2p/b,", '["/ip4/1.2.3.4/tcp/1/p2p/a", "/ip4/1.2.3.4/tcp/2/p2p/b"]']
)  # fmt: skip
def test_a_list_in_the_environment_is_comma_separated_or_json(text: str) -> None:
    found = load({"SWARMD_SWARM__BOOTSTRAP": text}).swarm.bootstrap
    assert found == ("/ip4/1.2.3.4/tcp/1/p2p/a", "/ip4/1.2.3.4/tcp/2/p2p/b")


@pytest.mark.parametrize("text", ["", "[]", " , "])
def test_an_empty_list_is_empty(text: str) -> None:
    assert load({"SWARMD_SWARM__BOOTSTRAP": text}).swarm.bootstrap == ()


def refused(*args: Any, **options: Any) -> str:
    """What the refusal says; every refusal is the operator's, exit code 2."""
    with pytest.raises(ConfigError) as caught:
        load(*args, **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_misspelt_setting_is_refused_with_a_suggestion() -> None:
    said = refused(flags={"update.learning_rat": "1"})
    assert "did you mean 'update.learning_rate'?" in said
    assert "the command line" in said


def test_a_setting_in_the_wrong_section_is_found() -> None:
    assert "did you mean 'update.learning_rate'?" in refused(flags={"grpo.learning_rate": "1"})


def test_a_setting_like_no_other_lists_the_sections() -> None:
    assert "sections are policy, update" in refused(flags={"zzz.qqq": "1"})


@pytest.mark.parametrize("variable", ["SWARMD_POLICY__MODLE", "SWARMD_MODEL", "SWARMD_", "SWARMD_A__B__C"])
def test_an_unknown_variable_is_refused_by_its_name(variable: str) -> None:
    assert f"environment variable {variable}" in refused({variable: "x"})


@pytest.mark.parametrize("variable", ["SWARMD_DATA_DIR", "HOME", "swarmd_policy__model"])
def test_other_variables_are_none_of_our_business(variable: str) -> None:
    assert load({variable: "x"}) == Config()


@pytest.mark.parametrize(
    "mix", ["4", "4/", "/4", "0/4", "-1/4", "4/4/4", "a/b", "4096.0/1", "5000/0", "99999/1"]
)
def test_a_mix_that_is_none_is_refused(mix: str) -> None:
    said = refused(flags={"experience.mix": mix})
    assert "'experience.mix'" in said
    assert "I/J" in said


def test_a_text_may_look_like_a_number() -> None:
    assert load({"SWARMD_SWARM__NAME": "2026"}).swarm.name == "2026"


def test_a_node_may_learn_from_itself_alone() -> None:
    found = load(flags={"experience.mix": "8/0"}).experience
    assert (found.num_local, found.num_external) == (8, 0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("policy.device", "gpu"),
        ("policy.temperature", "0"),
        ("policy.temperature", "NaN"),
        ("experience.completions", "1"),
        ("experience.completions", "lots"),
        ("experience.author_share_max", "1.5"),
        ("update.aggregation", "mean"),
        ("update.epochs", "9" * 5000),
        ("control.metrics_port", "65536"),
        ("evaluate.num_questions", "4097"),
        ("swarm.bootstrap", "true"),
        ("swarm.solo", "perhaps"),
        ("trust.ban_points", "Infinity"),
        ("update.weight_decay", "NaN"),
        ("update.epochs", "[" * 100_000),
        ("policy.model", '"a\\u0000b"'),
        ("swarm.name", "a\x1b[2Jb"),
        ("swarm.bootstrap", '["/ip4/127.0.0.1", "\\udc80"]'),
    ],
)
def test_a_value_out_of_bounds_names_the_setting_and_its_source(key: str, value: str) -> None:
    said = refused({"SWARMD_" + key.upper().replace(".", "__"): value})
    assert repr(key) in said
    assert "environment variable" in said


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "there is no configuration file" in refused(path=tmp_path / "no.toml")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    assert "cannot read" in refused(data_dir=tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"[policy",
        b"\xff\xfe",
        b"model = \n",
        b"[a]\nb=1\n[a]\n",
        b"a = " + b"[" * 5000,
        b"[policy]\nthreads = " + b"9" * 5000,
    ],
)
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    assert "is not valid TOML" in refused(data_dir=tmp_path)


def test_a_file_without_end_costs_an_error_and_not_the_memory(tmp_path: Path) -> None:
    (tmp_path / "config.toml").symlink_to("/dev/zero")
    assert "more than 1048576 bytes" in refused(data_dir=tmp_path)


def test_a_folder_that_is_closed_to_us_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.stat", closed)
    assert load() == Config()


def test_a_setting_outside_any_section_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "config.toml", "model = 'tiny'\n")
    assert "is not a section" in refused(data_dir=tmp_path)


def test_an_unknown_key_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "config.toml", "[policy]\nmodell = 'tiny'\n")
    said = refused(data_dir=tmp_path)
    assert "did you mean 'policy.model'?" in said
    assert str(file) in said


def test_settings_cannot_be_changed_once_loaded() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().policy.model = "other"  # type: ignore[misc]


def test_the_reference_page_is_the_generated_one() -> None:
    assert PAGE.read_text() == reference(), "write it anew with `make docs`"


def test_every_setting_is_described() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert len(rows) == len(known_keys())
    assert all(row.rstrip(" |").endswith(".") for row in rows)
