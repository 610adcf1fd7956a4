"""Target: a message's bytes as they come from the topic."""

from swarmd.protocol.rules import Verdict
from tests.fuzz.finding import require
from tests.fuzz.judged import judged
from tests.protocol.craft import MANIFEST, NOW_MS
from tests.protocol.second.judge import judge


def check(data: bytes) -> None:
    """Judge the bytes. Whoever has no secret key gets nothing accepted that its author did not write.

    Raises:
        Finding: a promise is broken.
    """
    outcome = judged(data, MANIFEST, NOW_MS)
    if outcome.verdict is Verdict.ACCEPT:
        # With the second reader's own Ed25519: slow, and seldom.
        rule = judge(data, NOW_MS, set(), MANIFEST.to_bytes())
        require(rule == "accepted", f"accepted, but {rule} to the second reader")
