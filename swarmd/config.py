"""Every setting of a node: frozen sections named like the rooms, and the only reader of TOML and environment.

A value comes from the first of: command line, `SWARMD_SECTION__KEY` in the environment, the file (`--config`, else `config.toml`
in the data directory, else `/etc/swarmd/config.toml`), the default below. The descriptions below are the reference manual:
`docs/reference/config.md` is generated from them.
"""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from swarmd.errors import ConfigError

ENV_PREFIX = "SWARMD_"
# Read elsewhere than in a section, so not misspelt settings.
ENV_OTHERS = {"SWARMD_DATA_DIR", "SWARMD_CONFIG"}
SYSTEM_FILE = Path("/etc/swarmd/config.toml")


class Section(BaseModel):
    """A group of settings; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class PolicySettings(Section):
    """The model, where it runs, and how it generates."""

    model: str = Field(
        "tiny", description="`tiny`, a known name such as `Qwen2.5-0.5B`, a hub id, or a folder."
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d{1,2})?)$",
        description="`auto`, `cpu`, `cuda`, `cuda:N` or `mps`. The CPU is taken only when asked for, or with `tiny`.",
    )
    placement: Literal["auto", "shared", "split"] = Field(
        "auto", description="Generation and update in one child process (`shared`) or two (`split`)."
    )
    threads: int = Field(0, ge=0, le=512, description="CPU threads of each child; 0 lets torch choose.")
    temperature: float = Field(1.0, gt=0, le=4, description="Sampling temperature of rollouts.")
    tokens_max: int = Field(
        0, ge=0, le=32768, description="Longest completion in tokens; 0: 16 for `tiny`, else 256."
    )
    generate_batch_tokens: int = Field(
        16384, ge=64, description="Most prompt and completion tokens that generation holds at once."
    )


class UpdateSection(Section):
    """The policy update (GRPO)."""

    learning_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Adam's learning rate; 0: the model's own default (1e-6, for `tiny` far more).",
    )
    aggregation: Literal["dapo", "grpo", "dr_grpo"] = Field(
        "dapo",
        description="How token losses are averaged: over all tokens of the round, per completion, or by a constant.",
    )
    clip_low: float = Field(0.2, ge=0, lt=1, description="The ratio is clipped below at 1 minus this.")
    clip_high: float = Field(0.28, ge=0, lt=10, description="The ratio is clipped above at 1 plus this.")
    advantage_scale: Literal["std", "none"] = Field(
        "std",
        description="Whether advantages are divided by the standard deviation of their rollout's rewards.",
    )
    advantage_eps: float = Field(1e-4, gt=0, description="Added to that deviation.")
    minibatches: int = Field(
        1, ge=1, le=64, description="Optimizer steps into which one round's training set is cut."
    )
    epochs: int = Field(1, ge=1, le=16, description="Passes over one round's training set.")
    micro_batch_tokens: int = Field(4096, ge=64, description="Most tokens forwarded at once.")
    grad_norm_max: float = Field(1.0, gt=0, description="Gradients are scaled down to this norm.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's weight decay.")
    mask_unfinished: bool = Field(
        False, description="Leave completions that were cut at the length limit out of the loss."
    )


class ExperienceSettings(Section):
    """What a round is made of, and how much of the swarm's experience is kept."""

    mix: str = Field(
        "4/4", description="I/J: rollouts of a round drawn from the node's own and from the swarm's."
    )
    completions: int = Field(8, ge=2, le=64, description="Completions generated for each question (L, or G).")
    staleness_max: int = Field(
        -1,
        ge=-1,
        le=16,
        description="Most updates between generation and use of an own rollout; -1: 0 if shared, 1 if split.",
    )
    strategy: Literal["uniform", "authors"] = Field(
        "uniform",
        description="Draw external rollouts uniformly, or an author first and then one of its rollouts.",
    )
    uses_max: int = Field(1, ge=1, le=1000, description="How often one external rollout may be trained on.")
    rollouts_max: int = Field(20_000, ge=1, description="Most external rollouts kept.")
    size_bytes_max: int = Field(512 * 2**20, ge=2**20, description="Most bytes of them kept.")
    author_share_max: float = Field(0.25, gt=0, le=1, description="Share of that which one author may hold.")
    age_s_max: int = Field(3600, ge=1, description="External rollouts older than this are not trained on.")

    @field_validator("mix")
    @classmethod
    def _mix_is_two_numbers(cls, value: str) -> str:
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", value)
        if not match or int(match[1]) < 1:
            raise ValueError(
                "mix is I/J, own and external rollouts a round, for example 4/4; I is at least 1"
            )
        return value

    @property
    def num_local(self) -> int:
        """I of the mix."""
        return int(self.mix.split("/")[0])

    @property
    def num_external(self) -> int:
        """J of the mix."""
        return int(self.mix.split("/")[1])


class SwarmSettings(Section):
    """Which swarm, and how to reach it."""

    name: str = Field(
        "auto",
        description="An embedded manifest (`tiny`, `reasoning`), a manifest file, or `auto`: by the model.",
    )
    listen: str = Field("/ip4/0.0.0.0/tcp/4810", description="The multiaddr to listen on.")
    announce: str = Field(
        "", description="The one multiaddr told to others, where it differs (port forwarding, containers)."
    )
    bootstrap: tuple[str, ...] = Field((), description="Multiaddrs with /p2p/ of peers to join through.")
    solo: bool = Field(False, description="No network at all: train on own rollouts only.")


class QuestionsSettings(Section):
    """Scoring of completions, other people's included."""

    sandbox: Literal["auto", "require", "off"] = Field(
        "auto",
        description="Lock the scorer down as far as the kernel allows, insist on all of it, or not at all.",
    )
    deadline_s: float = Field(
        20.0, gt=0, description="After this a scoring is killed and counts as zero reward."
    )


class EvaluateSettings(Section):
    """The held-out evaluation: questions that no node of the swarm trains on."""

    num_questions: int = Field(
        64, ge=0, le=10_000, description="Held-out questions; 0 turns the evaluation off."
    )
    completions: int = Field(4, ge=1, le=64, description="Completions for each of them.")
    every_rounds: int = Field(
        100, ge=0, description="Rounds between evaluations; 0: only at the start and the end."
    )


class CheckpointSettings(Section):
    """How often the state is written down, and how much is kept."""

    every_rounds: int = Field(
        1, ge=1, description="Rounds between checkpoints; a crash loses at most so many."
    )
    keep: int = Field(2, ge=1, le=100, description="Checkpoints kept.")


class ControlSettings(Section):
    """Where the node can be looked at."""

    metrics_host: str = Field("127.0.0.1", description="Address of /metrics, /healthz and /readyz.")
    metrics_port: int = Field(9810, ge=0, le=65535, description="Their port; 0 takes a free one.")


class Config(Section):
    """All sections."""

    policy: PolicySettings = PolicySettings()
    update: UpdateSection = UpdateSection()
    experience: ExperienceSettings = ExperienceSettings()
    swarm: SwarmSettings = SwarmSettings()
    questions: QuestionsSettings = QuestionsSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    control: ControlSettings = ControlSettings()


def load_config(
    *,
    flags: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    path: Path | None = None,
    data_dir: Path | None = None,
) -> Config:
    """The settings in force.

    Args:
        flags: `section.key` to value, as given on the command line.
        environ: the environment.
        path: a configuration file; it must exist. Without it, the two usual places are tried.
        data_dir: the data directory, whose `config.toml` is one of them.

    Raises:
        ConfigError: unreadable or malformed file, unknown key, bad value; the message names the key and where it came from.
    """
    values: dict[str, dict[str, Any]] = {}
    origin: dict[str, str] = {}

    def put(key: str, value: Any, where: str) -> None:
        section, _, name = key.partition(".")
        values.setdefault(section, {})[name] = value
        origin[key] = where

    for file in _files(path, data_dir):
        for section, content in _read_toml(file).items():
            if not isinstance(content, dict):
                raise ConfigError(
                    f"{file}: {section!r} is not a section",
                    "settings stand in sections",
                    f"write [{section}]",
                )
            for name, value in content.items():
                put(f"{section}.{name}", value, str(file))
    for variable, text in environ.items():
        if variable.startswith(ENV_PREFIX) and variable not in ENV_OTHERS:
            section, _, name = variable[len(ENV_PREFIX) :].lower().partition("__")
            put(f"{section}.{name}", _from_text(text), f"environment variable {variable}")
    for key, value in flags.items():
        put(key, _from_text(value) if isinstance(value, str) else value, "the command line")
    for key, where in origin.items():
        _check_key(key, where)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _explain(error, origin) from None


def known_keys() -> list[str]:
    """Every `section.key`."""
    return [
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in field.annotation.model_fields  # type: ignore[union-attr]
    ]


def _files(path: Path | None, data_dir: Path | None) -> list[Path]:
    """From the weakest to the strongest."""
    if path is not None:
        if not path.is_file():
            raise ConfigError(f"there is no configuration file {path}", fix="check --config")
        return [path]
    places = [SYSTEM_FILE] + ([data_dir / "config.toml"] if data_dir else [])
    return [place for place in places if place.exists()]


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}", str(error), "make it readable, or pass another with --config"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} is not valid TOML", str(error), "mend the file, or pass another with --config"
        ) from None


def _from_text(text: str) -> Any:
    """A value from a variable or flag: JSON where it is JSON, comma-separated where the setting is a list, else the text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if not isinstance(value, dict) else text


def _check_key(key: str, where: str) -> None:
    keys = known_keys()
    if key in keys:
        return
    name = key.partition(".")[2]
    near = difflib.get_close_matches(key, keys, 1, 0.6) or [k for k in keys if k.endswith(f".{name}")]
    hint = f"did you mean {near[0]!r}?" if near else f"sections are {', '.join(Config.model_fields)}"
    raise ConfigError(f"unknown setting {key!r}", f"it comes from {where}", hint)


def _explain(error: ValidationError, origin: Mapping[str, str]) -> ConfigError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"][:2])
    message = first["msg"].removeprefix("Value error, ")
    return ConfigError(
        f"bad value {first.get('input')!r} for {key!r}: {message}",
        f"it comes from {origin.get(key, 'the defaults')}",
        "docs/reference/config.md describes every setting",
    )


def reference() -> str:
    """The reference manual of all settings, in Markdown."""
    lines = [
        "# Settings",
        "",
        "Generated by `swarmd config reference`; do not edit.",
        "",
        "A value comes from the first of: the command line (`--set section.key=value`), the environment",
        "(`SWARMD_SECTION__KEY`), `config.toml` in the data directory (or `--config`), `/etc/swarmd/config.toml`, the default.",
    ]
    for section, field in Config.model_fields.items():
        model: type[Section] = field.annotation  # type: ignore[assignment]
        lines += ["", f"## {section}", "", str(model.__doc__), ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        for key, info in model.model_fields.items():
            kind = (
                str(info.annotation)
                if "[" in str(info.annotation)
                else getattr(info.annotation, "__name__", "")
            )
            kind = kind.replace("typing.", "").replace("|", "\\|")
            lines.append(f"| `{key}` | {kind} | `{_shown(info.default)}` | {info.description} |")
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)
