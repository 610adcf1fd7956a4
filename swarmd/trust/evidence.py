"""Evidence: what a peer did that no honest one could have done, and how many points it gets for that.

Only what is conclusive counts:

- An honest node judges before it forwards, so it never hands over a message that a rule REJECTs.
- An honest node sends no RPC out of the bounds of `proto/NETWORK.md`, and no more GRAFTs, PRUNEs and subscriptions than stand
  there.
- An honest author signs nothing that a rule rejects in its own swarm.
- An honest model's text does not take a scorer over.

Nothing else is evidence: no IGNORE (clocks differ, copies arrive), no quota, no wrong or slow answer, no exception of ours.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final, Literal

from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import RULES, VERDICT_OF, Verdict
from swarmd.protocol.wire import WireError, decode_message

Evidence = Literal[
    "forwarded_reject", "signed_reject", "broken_rpc", "control_flood", "forbidden_syscall", "forged_reply"
]

POINTS: Final[MappingProxyType[Evidence, float]] = MappingProxyType(
    {
        # A rejected message costs us milliseconds. Ten within the half-life are a ban; one bug of another implementation, met once,
        # is no ban.
        "forwarded_reject": 10.0,
        # The author signed nonsense; five are a ban.
        "signed_reject": 20.0,
        # The peer itself made the RPC that cannot be read or has a field out of bounds; ten are a ban.
        "broken_rpc": 10.0,
        # RPCs of the peer itself, past what its own upkeep of the mesh can need; ten are a ban.
        "control_flood": 10.0,
        # A text tried to leave the scorer; four batches are a ban. If our own sandbox errs, one odd text bans nobody.
        "forbidden_syscall": 25.0,
        "forged_reply": 25.0,
    }
)

# These rules run after the author's signature and the body's digest held, so the author made what they reject.
SIGNED_RULES: Final = frozenset(
    rule for rule in RULES[RULES.index("body_digest") + 1 :] if VERDICT_OF[rule] is Verdict.REJECT
)


def blame(rule: str, data: bytes, *, forwarder: bytes, manifest: Manifest) -> list[tuple[bytes, Evidence]]:
    """Who did wrong in a message on which `rule` spoke: key and evidence, each key once.

    Args:
        data: the message.
        forwarder: the key of the peer that handed it over.
    """
    if VERDICT_OF[rule] is not Verdict.REJECT:
        return []
    author = _author(data, manifest) if rule in SIGNED_RULES else None
    if author is None:
        return [(forwarder, "forwarded_reject")]
    found: list[tuple[bytes, Evidence]] = [(author, "signed_reject")]
    return found if author == forwarder else [*found, (forwarder, "forwarded_reject")]


def _author(data: bytes, manifest: Manifest) -> bytes | None:
    """The author, where the header names this swarm. A batch for another swarm may be sound there, and brought here by a thief."""
    try:
        header = decode_message(data, manifest.limits).header
    except WireError:
        return None
    return header.author if header.swarm == manifest.digest else None


def found_by_scorer(reasons: dict[str, int]) -> list[Evidence]:
    """The evidence among the reasons for which a scorer run on one author's batch gave 0."""
    return [kind for kind in ("forbidden_syscall", "forged_reply") if reasons.get(kind)]


# Reasons for which an honest model's text may well score 0; "" is no reason. All others are findings of guard or sandbox.
_NO_FINDING = frozenset({"", "no_answer"})


def has_finding(reasons_G: Iterable[str]) -> bool:
    """Whether the reasons for a rollout's scores name a fault that guard or sandbox found."""
    return not _NO_FINDING.issuperset(reasons_G)
