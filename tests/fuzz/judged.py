"""One message through our rules and through the second reader: the promises that hold for every message, whoever made it."""

import zlib

from nacl.exceptions import CryptoError
from nacl.signing import VerifyKey

from swarmd.protocol.manifest import Manifest
from swarmd.protocol.rules import RULES, VERDICT_OF, Outcome, validate
from swarmd.protocol.seen import Seen
from tests.fuzz.finding import require
from tests.fuzz.meter import METER
from tests.protocol.second import judge as second

# One in so many executions is also given to the second reader, which takes longer than everything else together. Which ones
# follows from the message, so that a finding can be repeated.
SECOND_EVERY, LARGE_EVERY = 3, 100
DETAIL_CHARS_MAX = 300
# Both refuse, under names that only the order of our libraries' checks decides: how deep msgpack may nest.
SAME_REFUSAL = (
    {"header_decode", "version", "header_fields"},
    {"body_decode", "body_fields"},
)
_REMEMBERED_FROM = RULES.index("body_frame")
_DUPLICATE_FROM = RULES.index("duplicate")
# A memory that stays full for the whole run, as in a node that has been up for a while. Small, so that it forgets too.
_WARM = Seen(1024)
_BYTES: dict[bytes, bytes] = {}


def judged(message: bytes, manifest: Manifest, now_ms: int, *, is_large: bool = False) -> Outcome:
    """The outcome. `is_large`: the second reader would take a good part of a second.

    Raises:
        Finding: a promise is broken.
    """
    seen = Seen()

    def fresh() -> Outcome:
        nonlocal seen
        seen = Seen()
        return validate(message, now_ms=now_ms, seen=seen, manifest=manifest)

    outcome = METER.timed(fresh)
    require(outcome.rule != "internal", f"verdict internal: {outcome.detail}")
    require(outcome.verdict is VERDICT_OF[outcome.rule], f"{outcome.rule} with verdict {outcome.verdict}")
    accepted = outcome.rule == "accepted"
    require((outcome.batch is not None) == accepted, "a batch exactly when accepted")
    detail = outcome.detail
    require(len(detail) <= DETAIL_CHARS_MAX and detail.isascii() and detail.isprintable(), f"{detail!r:.400}")
    require(len(seen) == (accepted or RULES.index(outcome.rule) >= _REMEMBERED_FROM), "remembered or not")
    _warm_agrees(message, manifest, now_ms, outcome)
    if zlib.crc32(message) % (LARGE_EVERY if is_large else SECOND_EVERY) == 0:
        _second_agrees(message, manifest, now_ms, outcome)
    return outcome


def _warm_agrees(message: bytes, manifest: Manifest, now_ms: int, outcome: Outcome) -> None:
    warm = validate(message, now_ms=now_ms, seen=_WARM, manifest=manifest)
    late = RULES.index(outcome.rule) >= _DUPLICATE_FROM
    require(
        warm.rule == outcome.rule or (warm.rule == "duplicate" and late),
        f"{outcome.rule} to a fresh memory, {warm.rule} to a full one",
    )


def _second_agrees(message: bytes, manifest: Manifest, now_ms: int, outcome: Outcome) -> None:
    expected = second.judge(message, now_ms, set(), _bytes_of(manifest), _verify)
    same = (
        expected == outcome.rule
        or _lax(expected, outcome.rule)
        or any({expected, outcome.rule} <= names for names in SAME_REFUSAL)
    )
    # The other way round nothing is forgiven: what a decoder by the book can open, ours opens.
    require(same, f"our rules say {outcome.rule} ({outcome.detail}), the second reader {expected}")


def _lax(expected: str, rule: str) -> bool:
    """Where libzstd takes damaged blocks (proto/RULES.md, `body_blocks`)."""
    return expected == "body_blocks" and RULES.index(rule) >= _REMEMBERED_FROM


def _bytes_of(manifest: Manifest) -> bytes:
    if manifest.digest not in _BYTES:  # a digest each, of the two manifests in use
        _BYTES[manifest.digest] = manifest.to_bytes()
    return _BYTES[manifest.digest]


def _verify(key: bytes, text: bytes, signature: bytes) -> bool:
    """libsodium's, of which the second reader's own is forty times slower; the vectors hold the two together."""
    try:
        VerifyKey(key).verify(text, signature)
    except (CryptoError, ValueError):
        return False
    return True
