"""Verified batches for tests, made by hand: the buffer never looks at a signature."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swarmd.experience.buffer import AddResult, SwarmBuffer
from swarmd.experience.counters import QuestionCounter
from swarmd.protocol.types import Completion, Header, Rollout, RolloutBatch, SignedBatch, VerifiedBatch

NOW_MS = 1_700_000_000_000
INFORMATIVE, UNINFORMATIVE = (1.0, 0.0), (0.0, 0.0)


def author(name: str) -> bytes:
    """A public key that stands for a name."""
    return hashlib.sha256(name.encode()).digest()


def batch(
    name: str,
    counters: Sequence[int],
    *,
    created_ms: int = NOW_MS,
    num_completions: int = 2,
    text: str = "<answer>4</answer>",
) -> VerifiedBatch:
    """One author's batch of rollouts on dataset 0."""
    rollouts = tuple(
        Rollout(
            dataset=0,
            counter=counter,
            completions=tuple(
                Completion(text=f"{text} {position}", finished=True) for position in range(num_completions)
            ),
        )
        for counter in counters
    )
    body = repr((name, list(counters))).encode()
    header = Header(
        version=1,
        author=author(name),
        created_ms=created_ms,
        counter_first=min(counters),
        counter_last=max(counters),
        policy="tiny",
        policy_version=3,
        body_size=len(body),
        body_sha256=hashlib.sha256(body).digest(),
    )
    signed = SignedBatch(
        header=header, header_bytes=b"", signature=b"", body=body, data=b"as it came " + body
    )
    return VerifiedBatch(signed=signed, batch=RolloutBatch(rollouts=rollouts))


def open_buffer(folder: Path, **settings: Any) -> SwarmBuffer:
    """A roomy buffer unless told otherwise."""
    bounds: dict[str, Any] = {
        "rollouts_max": 1000,
        "size_bytes_max": 2**24,
        "author_share_max": 1.0,
        "uses_max": 1,
        "age_s_max": 3600,
    }
    return SwarmBuffer(folder / "buffer.sqlite", **{**bounds, **settings})


def add(
    buffer: SwarmBuffer,
    name: str,
    counters: Sequence[int],
    *,
    rewards_G: Sequence[float] = INFORMATIVE,
    age_s: int = 0,
    text: str = "<answer>4</answer>",
    now_ms: int = NOW_MS,
    proven: bool = True,
) -> AddResult:
    """Add one author's rollouts, all with the same rewards, made `age_s` ago and received now."""
    made = batch(name, counters, created_ms=now_ms - 1000 * age_s, num_completions=len(rewards_G), text=text)
    num = len(counters)
    return buffer.add(made, ["2 + 2?"] * num, [list(rewards_G)] * num, received_ms=now_ms, proven=proven)


def open_counter(folder: Path, *, used: int | None = None, now_ms: int = NOW_MS) -> QuestionCounter:
    """The question counter beside the buffer; a new identity's unless told otherwise."""
    return QuestionCounter(folder / "node.sqlite", used=used, now_ms=lambda: now_ms)
