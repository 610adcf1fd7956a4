"""A swarm is a manifest: which datasets, how they are asked and scored, and the limits of a message.

Its digest is part of the topic's name and of every question's seed, so nodes that would disagree never meet, and a rollout needs no
more than an address (author, dataset number, counter) to name its question.
"""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

import msgpack
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.files.reading import read_within
from swarmd.protocol.types import (
    COMPLETION_BYTES_MAX,
    COMPLETIONS_MAX,
    DATASETS_MAX,
    INTEGER_MAX,
    KEY_BYTES,
    PROTOCOL_VERSION,
    ROLLOUTS_MAX,
    WireModel,
)

MANIFEST_VERSION = 2  # the value of Manifest.version
SEED_LIMIT = 2**31
FOLDER = Path(__file__).parent / "manifests"
MANIFEST_BYTES_MAX = 65_536
# Of the file that a person writes: a full manifest, each byte of it escaped, and comments.
TOML_BYTES_MAX = 2**20
# Completions of one message. Empty ones all fit 2 KB and take 15 to 25 ms of a core to judge. Swarms have half of that now
# (64 by 64). At 262,144, which the two limits allow one by one, a message of 3.6 KB took 550 ms.
BATCH_COMPLETIONS_MAX = 8192


def _only_float(value: object) -> float:
    if type(value) is not float:  # else a large integer would quietly become the float beside it
        raise ValueError("not a float")
    return value


Scalar = (
    bool
    | Annotated[int, Field(ge=-INTEGER_MAX, le=INTEGER_MAX)]
    | Annotated[float, BeforeValidator(_only_float)]
    | Annotated[str, Field(max_length=1024)]
)
ParamValue = Scalar | Annotated[list[Scalar], Field(max_length=256)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class DatasetSpec(WireModel):
    """One dataset of the swarm. Its number on the wire is its place in the manifest; a name may occur twice.

    `golden` is the digest of its known questions (`questions/golden.py`). Empty in a draft, with which no node starts.
    """

    name: Name
    params: Annotated[dict[Name, ParamValue], Field(max_length=64)] = Field(default_factory=dict)
    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    reward: Literal["upstream", "exact"] = "upstream"
    golden: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""


class Limits(WireModel):
    """Bounds of a message of this swarm. All sizes in bytes, all bounds inclusive."""

    # Above one 65,524-byte yamux frame stock py-libp2p corrupts the streams of peers that join, so no swarm may ask for more.
    message_bytes_max: Annotated[int, Field(ge=4096, le=60_000)] = 60_000
    # Uncompressed. Text shrinks to a third or a fourth, so an ordinary batch that fills a message fits. Opening a signed message
    # costs in proportion to this bound at worst.
    body_bytes_max: Annotated[int, Field(ge=4096, le=4_194_304)] = 262_144
    header_bytes_max: Annotated[int, Field(ge=512, le=2048)] = 2048
    rollouts_max: Annotated[int, Field(ge=1, le=ROLLOUTS_MAX)] = 64
    completions_min: Annotated[int, Field(ge=1, le=COMPLETIONS_MAX)] = 2  # a group of one has no advantage
    completions_max: Annotated[int, Field(ge=1, le=COMPLETIONS_MAX)] = 64
    completion_bytes_max: Annotated[int, Field(ge=64, le=COMPLETION_BYTES_MAX)] = 16_384
    # One batch's counters lie this close together, so that an author cannot claim a wide range and pick questions from it unseen.
    counter_span_max: Annotated[int, Field(ge=1, le=INTEGER_MAX)] = 4096
    age_s_max: Annotated[int, Field(ge=1, le=86_400)] = 600
    skew_s_max: Annotated[int, Field(ge=0, le=3600)] = 60

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.completions_min > self.completions_max:
            raise ValueError("completions_min is above completions_max")
        if self.rollouts_max * self.completions_max > BATCH_COMPLETIONS_MAX:
            raise ValueError(f"rollouts_max * completions_max is above {BATCH_COMPLETIONS_MAX}")
        return self


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class Manifest(WireModel):
    """The swarm's constitution. Equal manifests have equal bytes, whatever the order in which they were written down."""

    version: Literal[2] = 2
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    datasets: Annotated[
        tuple[DatasetSpec, ...], Field(min_length=1, max_length=DATASETS_MAX), BeforeValidator(_as_tuple)
    ]
    prompt_template: Annotated[str, Field(max_length=8192)]
    answer_format: Literal["tags", "plain"]
    scorer_version: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    epoch: Annotated[int, Field(ge=0, le=INTEGER_MAX)] = 0
    held_out_per_mille: Annotated[int, Field(ge=0, le=500)] = 50
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _asks_once(self) -> Self:
        if self.prompt_template.count("{question}") != 1:
            raise ValueError("prompt_template must contain {question} exactly once")
        return self

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """A changed copy, checked like any other manifest, with a digest of its own."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return self.model_validate({**fields, **(update or {})})

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over a domain prefix and the canonical bytes: 32 bytes."""
        return hashlib.sha256(b"swarmd/1/manifest\x00" + self.to_bytes()).digest()

    @property
    def topic(self) -> str:
        return f"/swarmd/{PROTOCOL_VERSION}/{self.name}/{self.digest.hex()[:16]}"

    def render(self, question: str) -> str:
        """The prompt: the question within the swarm's template."""
        return self.prompt_template.replace("{question}", question)

    def question_seed(self, author: bytes, dataset: int, counter: int) -> int:
        """The seed, in [0, 2**31), of the question at an address. Nobody can choose it, and no two authors share questions by plan.

        Raises:
            ValueError: an author that is no key, a dataset the manifest does not have, a counter out of range.
        """
        if len(author) != KEY_BYTES:
            raise ValueError(f"an author is a key of {KEY_BYTES} bytes, not {len(author)}")
        if not 0 <= dataset < len(self.datasets) or not 0 <= counter <= INTEGER_MAX:
            raise ValueError(f"no question at dataset {dataset}, counter {counter}")
        document = b"".join(
            (
                b"swarmd/1/question\x00",
                self.digest,
                self.epoch.to_bytes(8, "big"),
                author,
                dataset.to_bytes(4, "big"),
                counter.to_bytes(8, "big"),
            )
        )
        return int.from_bytes(hashlib.sha256(document).digest(), "big") % SEED_LIMIT

    def is_held_out(self, prompt: str) -> bool:
        """Whether nobody trains on this prompt (question and template, as the model reads it)."""
        first = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big")
        return first * 1000 < self.held_out_per_mille * 2**32

    def to_bytes(self) -> bytes:
        """The canonical bytes: msgpack, every field, map keys sorted, shortest integers, 64-bit floats."""
        encoded: bytes = msgpack.packb(_sorted(self.model_dump()), use_bin_type=True)
        return encoded

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """The manifest of canonical bytes.

        Raises:
            ConfigError: anything else than what `to_bytes` writes. IncompatibleSwarm: written for a newer version.
        """
        if len(data) > MANIFEST_BYTES_MAX:
            raise ConfigError(f"the manifest has {len(data)} bytes, at most {MANIFEST_BYTES_MAX}")
        try:
            fields = msgpack.unpackb(data, raw=False, strict_map_key=True)
        except (ValueError, TypeError, OverflowError) as error:
            raise ConfigError("the manifest's bytes cannot be read", str(error)) from error
        manifest = cls._from_fields(fields, "the manifest")
        if manifest.to_bytes() != data:
            raise ConfigError("the manifest's bytes are not canonical")
        return manifest

    @classmethod
    def from_toml(cls, data: bytes, source: str = "the manifest") -> "Manifest":
        """The manifest in a TOML document; `source` names it in errors.

        Raises:
            ConfigError, IncompatibleSwarm: as `from_bytes`.
        """
        try:
            fields = tomllib.loads(data.decode())
        except (
            ValueError,
            RecursionError,
        ) as error:  # also integers of 5,000 digits, and brackets in brackets in brackets
            raise ConfigError(f"{source} is not valid TOML", str(error)) from None
        manifest = cls._from_fields(fields, source)
        if len(manifest.to_bytes()) > MANIFEST_BYTES_MAX:
            raise ConfigError(f"{source} has more than {MANIFEST_BYTES_MAX} bytes when encoded")
        return manifest

    @classmethod
    def _from_fields(cls, fields: object, source: str) -> "Manifest":
        version = fields.get("version") if isinstance(fields, dict) else None
        if type(version) is int and MANIFEST_VERSION < version <= INTEGER_MAX:
            raise IncompatibleSwarm(
                f"{source} has version {version}", f"this build reads {MANIFEST_VERSION}", "upgrade swarmd"
            )
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(_shown(part).strip("'") for part in first["loc"])
            raise ConfigError(
                f"{source}: {place}: {first['msg']}", f"found {_shown(first['input'])}"
            ) from None


def load_manifest(name_or_path: str | Path) -> Manifest:
    """A shipped manifest by name (`tiny`, `reasoning`, `reasoning-paper`), or one from a TOML file.

    Raises:
        ConfigError: no such name or file, or not a manifest.
    """
    text = str(name_or_path)
    path = FOLDER / f"{text}.toml" if re.fullmatch(r"[a-z0-9-]+", text) else Path(text)
    try:
        data = read_manifest_file(path)
    except ConfigError as error:
        names = ", ".join(sorted(file.stem for file in FOLDER.glob("*.toml")))
        fix = f"shipped are {names}; a file is named with its .toml"
        raise ConfigError(f"no manifest {text}", error.why, fix) from None
    return Manifest.from_toml(data, str(path))


def read_manifest_file(path: Path) -> bytes:
    """The bytes of a manifest's TOML file. Raises ConfigError where there are none, or too many for a manifest."""
    try:
        return read_within(path, TOML_BYTES_MAX)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path} cannot be read", why, "name a manifest's TOML file") from error


def _shown(value: object) -> str:
    """A value of the document for an error: short, and safe on a terminal, however deep or long it is."""
    if isinstance(value, (dict, list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    if type(value) is int and abs(value) > 2**64:
        return "an integer of many digits"
    return f"{value!r:.80}"


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, (list, tuple)) else value
