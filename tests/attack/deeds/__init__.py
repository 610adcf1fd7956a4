"""The attacks by name, in the order in which they are tried; each goes on until it is cancelled."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.attack.deeds.bootstrap import mute_bootstrap
from tests.attack.deeds.cannon import cannon
from tests.attack.deeds.content import (
    cheap_proof,
    code_texts,
    garbage_then_right,
    harmful,
    other_texts,
    sign_inverted,
)
from tests.attack.deeds.fields import fields
from tests.attack.deeds.flood import flood_one, flood_twenty
from tests.attack.deeds.messages import bombs, forged_questions, malformed, stolen_and_replayed
from tests.attack.deeds.port import page, squat
from tests.attack.deeds.sockets import garbage_everywhere, half_open, slow_readers
from tests.attack.ring import Ring

HARMFUL, MUTE, CANNON, FIELDS, CHEAP = "harmful", "mute-bootstrap", "cannon", "fields", "cheap-proof"
# Identities that an attack uses at most; the harness looks for this many among authors.
IDENTITIES_MAX = 200


@dataclass(frozen=True)
class Deed:
    """One attack: what it tries, in one line, and how."""

    text: str
    run: Callable[[Ring], Awaitable[None]]


DEEDS: dict[str, Deed] = {
    "code-texts": Deed("14 answers that run code, to each dataset", code_texts),
    "dos-texts": Deed("answers that hang, fill or end a scorer", other_texts),
    "forged-questions": Deed("wrong datasets, counters, seeds, fields, claims", forged_questions),
    "stolen-replayed": Deed("others' bodies under own names, altered, repeated", stolen_and_replayed),
    "bombs": Deed("decompression and msgpack bombs, signed too", bombs),
    "malformed": Deed("oversize, truncated and random messages and RPCs", malformed),
    FIELDS: Deed("RPCs of 34,000 topics, 3,000 GRAFTs, unknown fields; endless names", fields),
    "flood-one": Deed("one identity, the dearest messages, without pause", flood_one),
    "flood-twenty": Deed("twenty identities at once, the same", flood_twenty),
    "slow-readers": Deed("twenty subscribers that stop reading", slow_readers),
    "half-open": Deed("TCP connections that never finish Noise", half_open),
    "garbage-protocols": Deed("garbage on every protocol, and under it", garbage_everywhere),
    CANNON: Deed("neighbours under ever new names that all name one third party", cannon),
    "page": Deed("bad requests to the local port, as a web page sends them", page),
    "squat": Deed("1,200 half-open connections to the local port of each", squat),
    CHEAP: Deed("new names with 64 rollouts of two empty texts each, to become proven", cheap_proof),
    "garbage-right": Deed("right answers after garbage text", garbage_then_right),
    "sign-inverted": Deed("wrong answers in good style, right ones in bad", sign_inverted),
    HARMFUL: Deed("both and more, from one patient author within the quotas", harmful),
    MUTE: Deed("two bootstraps that accept and never answer, for newcomers", mute_bootstrap),
}

TOGETHER = "everything"
# All at once, by process: one process has one core, and what stops reading stops with its whole process.
TOGETHER_GROUPS = (
    (HARMFUL,),
    ("code-texts", "dos-texts"),
    ("forged-questions", "stolen-replayed", "bombs", "malformed", FIELDS),
    ("flood-one",),
    ("flood-twenty",),
    ("half-open", "garbage-protocols"),
    ("slow-readers",),
    ("page", "squat"),
)
TOGETHER_TEXT = (
    "all at once, without garbage-right and sign-inverted (harmful sends both), cheap-proof, mute-bootstrap, and cannon, whom"
    " nobody asks where nodes have enough neighbours; "
    "half-open with a third of its connections, squat with a twelfth, flood-twenty with five identities"
)
