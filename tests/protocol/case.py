"""A message with the verdict it must get, and good material to spoil."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from swarmd.protocol.rules import VERDICT_OF, Verdict
from tests.protocol.craft import (
    pack,
    plain_batch,
    stored_frame,
    with_body,
    with_content,
)

GOOD = with_content(plain_batch())
BODY = stored_frame(pack(plain_batch()))
OTHER_SWARM = bytes(32)
# The neutral point: under it anybody's signature verifies for implementations that do not look.
NEUTRAL_KEY = bytes([1]) + bytes(31)
# Order 8: added to a good key, it makes one with which implementations of Ed25519 disagree on some signatures.
TORSION_POINT = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
# Made by zstd 1.5.7 at level 3 from the content of BODY. Only to be decoded: compressors differ.
COMPRESSED_BODY = bytes.fromhex(
    "28b52ffd600900550400340781a8726f6c6c6f7574739283a76461746173657400a7636f756e74657228ab636f6d706c6574696f6e73"
    "9284a474657874b23c616e737765723e303c2fa866696e6973686564c3ab6c6f6770726f625f73756dcbbff800aa6e756d5f746f6b65"
    "6e730782aa6e61c3af766520e29c93c201293108000c5001ec80308129e26b7947b82fae8dae5bf6"
)
# The same for 1,048,575 bytes, "abcdefghijk" over and over, at level 19; but it declares 4096.
COMPRESSED_BOMB = bytes.fromhex(
    "28b52ffda0001000009c0000586162636465666768696a6b0100f2ffce8b17440000000100fdffce0b10440000000100fdff390002"
    "440000000100fdff390002440000000100fdff390002440000000100fdff390002440000000100fdff390002450000000100fcff39"
    "0002"
)


@dataclass(frozen=True)
class Case:
    """A message, what came before it, and the rule it must end at.

    `keeps` names the rule that it only just keeps: where a broken case goes one step too far, this one does not.
    """

    name: str
    rule: str
    message: bytes
    before: list[bytes] = field(default_factory=list)
    keeps: str = ""

    @property
    def verdict(self) -> Verdict:
        return VERDICT_OF[self.rule]


def declaring(frame: bytes, more: int) -> bytes:
    """A single-segment frame of 256 to 65791 bytes of content that declares `more` of them."""
    size = int.from_bytes(frame[5:7], "little") + more
    return frame[:5] + size.to_bytes(2, "little") + frame[7:]


def batch_with(change: Callable[[list[dict[str, Any]]], Any]) -> bytes:
    """A signed message whose rollouts were changed in place."""
    batch = copy.deepcopy(plain_batch())
    change(batch["rollouts"])
    return with_content(batch)


def completion_with(**changes: Any) -> bytes:
    """A signed message whose first completion has some fields changed (`...` removes one)."""

    def change(rollouts: list[dict[str, Any]]) -> None:
        completion = rollouts[0]["completions"][0] | changes
        rollouts[0]["completions"][0] = {k: v for k, v in completion.items() if v is not ...}

    return batch_with(change)


def header_with(**changes: Any) -> bytes:
    """A signed message whose header has some fields changed (`...` removes one)."""
    return with_body(BODY, **changes)
