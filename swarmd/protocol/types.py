"""What nodes say to each other, parsed once: completions, rollouts, headers, messages.

Models are strict and bounded on every length, so that an object of one of these types needs no further check of form. The bounds
here are those of the format; a swarm's manifest may set tighter ones (`swarmd.protocol.manifest.Limits`).
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

VERSION = 1
KEY_BYTES, SIGNATURE_BYTES, DIGEST_BYTES = 32, 64, 32
COUNTER_MAX = 2**53 - 1  # exact in every language's numbers
DATASETS_MAX = 256
COMPLETIONS_MAX, ROLLOUTS_MAX = 256, 256
COMPLETION_CHARACTERS_MAX = 16_384

Counter = Annotated[int, Field(ge=0, le=COUNTER_MAX)]
Key = Annotated[bytes, Field(min_length=KEY_BYTES, max_length=KEY_BYTES)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Completion(_Message):
    """One answer as decoded text. `finished`: the policy ended it itself, so the receiver appends its own end token.

    `logprob_sum` (natural log) and `num_tokens` are the sender's optional claims; they can only lower a completion's weight.
    """

    text: Annotated[str, Field(max_length=COMPLETION_CHARACTERS_MAX)]
    finished: bool
    logprob_sum: Annotated[float, Field(allow_inf_nan=False, le=0.0)] | None = None
    num_tokens: Annotated[int, Field(ge=0, le=1_000_000)] | None = None


class Rollout(_Message):
    """A question by its address (dataset number and the author's counter) with all its completions."""

    dataset: Annotated[int, Field(ge=0, lt=DATASETS_MAX)]
    counter: Counter
    completions: Annotated[tuple[Completion, ...], Field(min_length=1, max_length=COMPLETIONS_MAX)]


class RolloutBatch(_Message):
    """The body: rollouts of one author, one round."""

    rollouts: Annotated[tuple[Rollout, ...], Field(min_length=1, max_length=ROLLOUTS_MAX)]


class Header(_Message):
    """What the author signs. `policy` and `policy_version` are for information only."""

    version: Annotated[int, Field(ge=0, le=2**16)]
    author: Key
    created_ms: Annotated[int, Field(ge=0, le=COUNTER_MAX)]
    counter_first: Counter
    counter_last: Counter
    policy: Annotated[str, Field(max_length=64)]
    policy_version: Counter
    body_size: Annotated[int, Field(ge=0, le=2**31)]
    body_sha256: Annotated[bytes, Field(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


@dataclass(frozen=True, slots=True)
class SignedBatch:
    """A message taken apart. `data` is the whole of it and `header_bytes` and `body` parts of it, exactly as they came."""

    header: Header
    header_bytes: bytes
    signature: bytes
    body: bytes | None
    data: bytes


@dataclass(frozen=True, slots=True)
class VerifiedBatch:
    """A message that every rule accepted. Only `swarmd.protocol.rules` makes one."""

    signed: SignedBatch
    batch: RolloutBatch
