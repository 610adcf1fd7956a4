"""A swarm's manifest: which questions, in which words, scored how, within which limits.

Its digest is part of the topic, so nodes that would disagree never meet. `proto/WIRE.md` gives the byte layouts.
"""

import hashlib
import json
import tomllib
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from swarmd.errors import ConfigError
from swarmd.protocol.types import COMPLETIONS_MAX, DATASETS_MAX, ROLLOUTS_MAX, VERSION

SEED_DOMAIN = b"swarmd question seed 1\x00"
HELD_OUT_DOMAIN = b"swarmd held out 1\x00"
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Parameter = bool | int | float | str | list[bool | int | float | str]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DatasetSpec(_Part):
    """One reasoning_gym dataset with its parameters. `weight` is its share of the questions."""

    name: Name
    params: dict[str, Parameter] = Field(default_factory=dict, max_length=32)
    weight: float = Field(1.0, gt=0, le=1e6)
    reward: Literal["upstream", "exact"] = "upstream"


class Limits(_Part):
    """Bounds that every node of the swarm applies; sizes in bytes."""

    message_bytes_max: int = Field(60_000, ge=1024, le=1_000_000)
    header_bytes_max: int = Field(2048, ge=256, le=65_536)
    body_bytes_max: int = Field(1_000_000, ge=1024, le=64_000_000)  # unpacked
    rollouts_max: int = Field(64, ge=1, le=ROLLOUTS_MAX)
    completions_max: int = Field(64, ge=1, le=COMPLETIONS_MAX)
    completion_bytes_max: int = Field(16_384, ge=1, le=16_384)
    counter_span_max: int = Field(4096, ge=1)
    age_s_max: int = Field(600, ge=1)
    skew_s_max: int = Field(60, ge=0)


class Manifest(_Part):
    """See the module."""

    version: int = Field(VERSION, ge=1)
    name: Name
    datasets: tuple[DatasetSpec, ...] = Field(min_length=1, max_length=DATASETS_MAX)
    prompt_template: str = Field(max_length=4096)
    answer_format: Literal["tags", "plain"] = "tags"
    scorer_version: int = Field(1, ge=1)
    epoch: int = Field(0, ge=0)
    held_out_per_mille: int = Field(50, ge=0, le=500)
    limits: Limits = Limits()

    @field_validator("prompt_template")
    @classmethod
    def _has_one_question(cls, value: str) -> str:
        if value.count("{question}") != 1:
            raise ValueError("must contain {question} once")
        return value

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.to_bytes()).digest()

    @property
    def topic(self) -> str:
        """The gossip topic of this swarm."""
        return f"/swarmd/{VERSION}/{self.name}/{self.digest.hex()[:16]}"

    def question_seed(self, author: bytes, dataset: int, counter: int) -> int:
        """The seed in [0, 2**31) of one question, bound to its author: nobody chooses questions, nobody reuses another's."""
        message = SEED_DOMAIN + self.digest + self.epoch.to_bytes(8, "big") + author
        message += dataset.to_bytes(4, "big") + counter.to_bytes(8, "big")
        return int.from_bytes(hashlib.sha256(message).digest()[:8], "big") % 2**31

    def is_held_out(self, prompt: str) -> bool:
        """Whether nobody trains on this question: a property of its text, so equal questions of other seeds are out too."""
        digest = hashlib.sha256(HELD_OUT_DOMAIN + prompt.encode()).digest()
        return int.from_bytes(digest[:8], "big") % 1000 < self.held_out_per_mille

    def render(self, question: str) -> str:
        """The prompt of a question."""
        return self.prompt_template.replace("{question}", question)

    def to_bytes(self) -> bytes:
        """Canonical JSON: keys sorted, no white space, UTF-8."""
        return json.dumps(
            self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse of `to_bytes`. Raises ConfigError."""
        try:
            return cls.model_validate(json.loads(data))
        except (ValidationError, ValueError) as error:
            raise ConfigError("this is not a swarm manifest", str(error)) from None

    @classmethod
    def from_toml(cls, data: bytes) -> Self:
        """A manifest as people write it. Raises ConfigError."""
        try:
            values: dict[str, Any] = tomllib.loads(data.decode())
            return cls.model_validate(values)
        except (ValidationError, ValueError) as error:
            raise ConfigError("this is not a swarm manifest", str(error), "see proto/WIRE.md") from None


def embedded_names() -> list[str]:
    """The manifests that the package ships."""
    folder = files("swarmd.protocol") / "manifests"
    return sorted(
        entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")
    )


def load_manifest(name_or_path: str) -> Manifest:
    """An embedded manifest by name, or a TOML file. Raises ConfigError."""
    if name_or_path in embedded_names():
        return Manifest.from_toml(
            (files("swarmd.protocol") / "manifests" / f"{name_or_path}.toml").read_bytes()
        )
    path = Path(name_or_path)
    if not path.is_file():
        raise ConfigError(
            f"there is no swarm {name_or_path!r}",
            "it is neither an embedded manifest nor a file",
            f"embedded ones: {', '.join(embedded_names())}",
        )
    try:
        return Manifest.from_toml(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {path}", str(error)) from None
