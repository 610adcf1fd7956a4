"""The node's random seeds: one independent generator for each purpose and number, derived and never stored.

A seed follows from the node's private seed and the swarm's manifest. No two nodes draw alike, and nobody else can foresee a draw.
The round and question numbers are the only state, so a restarted node goes on as if nothing had happened.
"""

import hashlib
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Seeds:
    """`secret` is the node's 32-byte identity seed, `manifest_digest` the swarm's."""

    secret: bytes
    manifest_digest: bytes

    def seed(self, purpose: str, number: int) -> int:
        """A 62-bit seed for one draw."""
        digest = hashlib.sha256()
        for part in (
            b"swarmd stream",
            self.secret,
            self.manifest_digest,
            purpose.encode(),
            number.to_bytes(8, "big"),
        ):
            digest.update(len(part).to_bytes(2, "big") + part)
        return int.from_bytes(digest.digest()[:8], "big") >> 2

    def rng(self, purpose: str, number: int) -> random.Random:
        return random.Random(self.seed(purpose, number))
