"""The content of the wire as immutable typed values that need no second check.

The bounds here are the protocol's ceilings. A swarm's manifest sets tighter ones (`manifest.Limits`), which `rules` applies.
Models are strict: no number is made from text, a bool is no int, unknown fields are refused.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, FailFast, Field

PROTOCOL_VERSION = 1
KEY_BYTES = 32
DIGEST_BYTES = 32
SIGNATURE_BYTES = 64
# The largest integer that every language's numbers hold exactly (JavaScript: 2**53 - 1). A counter lasts 285 years at a million
# questions a second.
INTEGER_MAX = 2**53 - 1
DATASETS_MAX = 1024
ROLLOUTS_MAX = 1024
COMPLETIONS_MAX = 256
COMPLETION_BYTES_MAX = 65_536
NUM_TOKENS_MAX = 2**20
LOGPROB_SUM_MAX = 1e9  # 2**20 tokens at -1000 each; only keeps sums of many claims finite
POLICY_NAME_MAX = 64


Counter = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
PublicKey = Annotated[bytes, Field(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Digest = Annotated[bytes, Field(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


class WireModel(BaseModel):
    """Strict, frozen, closed, and without NaN or infinity."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class Completion(WireModel):
    """One sampled answer text and whether the model ended it itself (False: cut at the token limit).

    `logprob_sum` (nats, under the author's policy) and `num_tokens` (the author's tokenizer) are claims: a receiver may use them
    to lower the completion's weight, never to raise it, and reads a positive sum as 0.
    """

    # The bound on its length makes pydantic look at the characters, too: it refuses lone surrogates, which are no text.
    text: Annotated[str, Field(max_length=COMPLETION_BYTES_MAX)]
    finished: bool
    logprob_sum: Annotated[float, Field(ge=-LOGPROB_SUM_MAX, le=LOGPROB_SUM_MAX)] | None = None
    num_tokens: Annotated[int, Field(ge=0, le=NUM_TOKENS_MAX)] | None = None


class Rollout(WireModel):
    """One question, by its address (dataset number in the manifest, counter of the author), with all its completions."""

    dataset: Annotated[int, Field(ge=0, lt=DATASETS_MAX)]
    counter: Counter
    completions: Annotated[tuple[Completion, ...], Field(max_length=COMPLETIONS_MAX), FailFast()]


class RolloutBatch(WireModel):
    """Rollouts of one author and one round: the body of a message."""

    rollouts: Annotated[tuple[Rollout, ...], Field(max_length=ROLLOUTS_MAX), FailFast()]


class Header(WireModel):
    """The author signs this. The body's size and digest bind the batch to it, whether or not the batch is at hand.

    `counter_first` and `counter_last` are inclusive. `policy` and `policy_version` are for information only.
    `swarm` is the manifest's digest, or empty: then others may replay the batch in another swarm, where the same counters
    mean other questions.
    """

    version: Annotated[int, Field(ge=1, le=PROTOCOL_VERSION)]
    author: PublicKey
    created_ms: Annotated[int, Field(ge=0, le=INTEGER_MAX)]
    counter_first: Counter
    counter_last: Counter
    policy: Annotated[str, Field(max_length=POLICY_NAME_MAX, pattern=r"^[ -~]*$")]
    policy_version: Annotated[int, Field(ge=0, le=INTEGER_MAX)]
    body_size: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    body_sha256: Digest
    swarm: Digest | Annotated[bytes, Field(max_length=0)] = b""


@dataclass(frozen=True, slots=True)
class SignedBatch:
    """A message whose framing and header were understood; the signature has *not* been verified.

    `header_bytes`, `body` and `data` (the whole message) are exactly the bytes that came; nothing ever encodes them again.
    """

    header: Header
    header_bytes: bytes
    signature: bytes
    body: bytes | None
    data: bytes


@dataclass(frozen=True, slots=True)
class VerifiedBatch:
    """A batch that passed every rule. Only `rules.validate` makes one."""

    signed: SignedBatch
    batch: RolloutBatch
