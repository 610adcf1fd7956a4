"""Messages as large as a swarm allows, of four kinds of text, each signed; and answers to questions as models write them."""

import random
import re
import string
from collections.abc import Callable
from functools import cache
from pathlib import Path

from swarmd.protocol.manifest import Manifest
from swarmd.protocol.signing import Identity
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from swarmd.protocol.wire import WireError, decode_body

NOW_MS = 1_800_000_000_000
_DOCS = Path(__file__).parents[2]
Words = Callable[[int], str]


def kinds(rng: random.Random) -> dict[str, tuple[int, Words]]:
    """By name: completions of a rollout, and a source of text of about so many characters."""
    return {
        "typical": (8, prose(rng)),
        "incompressible": (8, noise(rng)),
        "beyond ASCII": (8, letters(rng)),
        "many small": (64, lambda num: f"<answer>{rng.randrange(1000)}</answer>"),
    }


def prose(rng: random.Random) -> Words:
    """Words of this project's pages, as often as they occur there, with numbers between them."""
    words = _words()

    def text(num_chars: int) -> str:
        drawn = rng.choices(words, k=num_chars // 6)
        drawn[::13] = [str(rng.randrange(1000)) for _ in drawn[::13]]
        return f"{' '.join(drawn)}\n<answer>{rng.randrange(1000)}</answer>"

    return text


@cache
def _words() -> list[str]:
    return re.findall(r"[A-Za-z,.]+", "".join(p.read_text() for p in sorted(_DOCS.glob("docs/*.md"))))


def noise(rng: random.Random) -> Words:
    """Random printable ASCII: 6.6 bits a character, which no compressor can shorten further."""
    return lambda num_chars: "".join(rng.choices(string.printable, k=num_chars))


def letters(rng: random.Random) -> Words:
    """Random characters of two to four bytes in UTF-8."""
    return lambda num_chars: "".join(
        chr(
            rng.choice(
                (rng.randrange(0x80, 0x800), rng.randrange(0x4E00, 0x9FFF), rng.randrange(0x1F300, 0x1F600))
            )
        )
        for _ in range(num_chars // 3)
    )


def largest(
    manifest: Manifest, identity: Identity, counter: int, num_completions: int, text: Words
) -> tuple[bytes, int, int]:
    """The longest message found that the swarm takes, the bytes of its content, and its completions.

    Rollouts are added one by one, with texts short enough that the last one leaves little room.
    """
    limits = manifest.limits
    num_chars = 700
    rollouts: list[Rollout] = []
    best, num_best = b"", 0
    while len(rollouts) < limits.rollouts_max:
        number = len(rollouts)
        completions = tuple(
            Completion(
                text=text(num_chars), finished=True, logprob_sum=-0.5 * num_chars, num_tokens=num_chars // 4
            )
            for _ in range(num_completions)
        )
        rollouts.append(
            Rollout(
                dataset=number % len(manifest.datasets), counter=counter + number, completions=completions
            )
        )
        message = identity.seal(
            RolloutBatch(rollouts=tuple(rollouts)),
            created_ms=NOW_MS - 1000,
            policy="bench",
            policy_version=1,
            swarm=manifest.digest,
        )
        if len(message) > limits.message_bytes_max or not _opens(message, manifest):
            break
        best, num_best = message, (number + 1) * num_completions
    return best, _content_bytes(best), num_best


def _body(message: bytes) -> bytes:
    return message[67 + int.from_bytes(message[1:3], "big") :]


def _opens(message: bytes, manifest: Manifest) -> bool:
    try:
        decode_body(_body(message), manifest.limits)
    except WireError:
        return False
    return True


def _content_bytes(message: bytes) -> int:
    import zstandard

    return int(zstandard.get_frame_parameters(_body(message)).content_size)
