"""Identities are libp2p's, signatures bind author and header, and `seal` makes what the rules accept."""

import hashlib

import pytest
from nacl.signing import SigningKey

from swarmd.protocol.rules import Verdict, validate
from swarmd.protocol.seen import Seen
from swarmd.protocol.signing import DOMAIN, Identity, duplicate_key, is_sound_key, peer_id_of, verify
from swarmd.protocol.types import Completion, Rollout, RolloutBatch
from swarmd.protocol.wire import decode_message
from tests.protocol.case import BODY, NEUTRAL_KEY
from tests.protocol.craft import ALICE, MALLORY, MANIFEST, NOW_MS, pack, plain_header
from tests.protocol.second import ed25519
from tests.protocol.second.ed25519 import ORDER, P, add, times
from tests.protocol.torsion_cases import BASE, TORSION, encoded, secret_of, torsion_cases

COMPLETIONS = (Completion(text="a", finished=True), Completion(text="b", finished=False))
BATCH = RolloutBatch(rollouts=(Rollout(dataset=1, counter=7, completions=COMPLETIONS),))


def test_key_and_peer_id_are_libp2ps():
    from libp2p.crypto.ed25519 import create_new_key_pair
    from libp2p.peer.id import ID

    for number in range(20):
        seed = hashlib.sha256(bytes([number])).digest()
        pair, identity = create_new_key_pair(seed), Identity.from_seed(seed)
        assert pair.public_key.to_bytes() == identity.public_key
        assert str(ID.from_pubkey(pair.public_key)) == identity.peer_id


def test_a_signature_holds_for_its_author_and_header_only():
    signature = ALICE.sign(b"header")
    assert verify(ALICE.public_key, b"header", signature)
    assert not verify(MALLORY.public_key, b"header", signature)
    assert not verify(ALICE.public_key, b"headex", signature)
    assert not verify(ALICE.public_key, b"header", signature[:-1] + bytes([signature[-1] ^ 1]))


def test_a_signature_made_for_another_purpose_does_not_hold():
    key = SigningKey(bytes(range(32)))
    assert verify(ALICE.public_key, b"header", key.sign(DOMAIN + ALICE.public_key + b"header").signature)
    assert not verify(ALICE.public_key, b"header", key.sign(ALICE.public_key + b"header").signature)
    assert not verify(ALICE.public_key, b"header", key.sign(b"header").signature)


def test_under_a_sound_key_only_the_neutral_point_of_small_order_satisfies_the_equation():
    header = pack(plain_header(BODY))
    for point in [encoded(times(k, TORSION)) for k in range(8)]:
        text = DOMAIN + ALICE.public_key + header
        challenge = int.from_bytes(hashlib.sha512(point + ALICE.public_key + text).digest(), "little") % ORDER
        scalar = challenge * secret_of(bytes(range(32))) % ORDER
        commitment, key = ed25519.decode(point), ed25519.decode(ALICE.public_key)
        assert commitment is not None
        assert key is not None
        holds = ed25519.equal(times(scalar, BASE), add(commitment, times(challenge, key)))
        assert holds == (point == NEUTRAL_KEY)
        assert not verify(ALICE.public_key, header, point + scalar.to_bytes(32, "little"))


def test_no_sound_key_has_a_second_encoding():
    for number in range(P, 2**255):
        for key in (number.to_bytes(32, "little"), (number | 1 << 255).to_bytes(32, "little")):
            point = ed25519.decode(
                (number - P | int.from_bytes(key, "little") >> 255 << 255).to_bytes(32, "little")
            )
            assert point is None or not ed25519.equal(times(ORDER, point), ed25519.NEUTRAL) or number == P + 1
            assert not is_sound_key(key)


@pytest.mark.parametrize("name", ["an ordinary point", "a point with such a part"])
def test_libsodium_takes_what_wire_md_says_under_a_key_with_a_part_of_small_order(name):
    """So the rule author_key is what refuses these."""
    message = {case.name: case.message for case in torsion_cases()}[
        f"the equation holds: a key with a part of order 8, {name}"
    ]
    signed = decode_message(message, MANIFEST.limits)
    assert verify(signed.header.author, signed.header_bytes, signed.signature)
    assert not is_sound_key(signed.header.author)


@pytest.mark.parametrize(("key", "signature"), [(b"", bytes(64)), (bytes(31), bytes(64)), (bytes(32), b"")])
def test_wrong_lengths_do_not_verify(key, signature):
    assert not verify(key, b"header", signature)
    assert not is_sound_key(key[:31])


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_seed_or_key_of_another_length_is_refused(size):
    with pytest.raises(ValueError, match="32 bytes"):
        Identity.from_seed(bytes(size))
    with pytest.raises(ValueError, match="32 bytes"):
        peer_id_of(bytes(size))


def test_the_secret_is_not_shown():
    assert repr(ALICE) == f"Identity({ALICE.peer_id})"


def test_a_sealed_batch_is_accepted():
    message = ALICE.seal(BATCH, created_ms=NOW_MS, policy="tiny", policy_version=3, swarm=MANIFEST.digest)
    outcome = validate(message, now_ms=NOW_MS, seen=Seen(), manifest=MANIFEST)
    assert outcome.verdict is Verdict.ACCEPT
    assert outcome.batch is not None
    assert outcome.batch.batch == BATCH


def test_a_policy_name_is_cut_and_cleaned():
    name = "naïve\n" + "x" * 100
    message = ALICE.seal(BATCH, created_ms=NOW_MS, policy=name, policy_version=0)
    assert decode_message(message, MANIFEST.limits).header.policy == "na?ve?" + "x" * 58


def test_an_empty_batch_cannot_be_sealed():
    with pytest.raises(ValueError, match="at least one rollout"):
        ALICE.seal(RolloutBatch(rollouts=()), created_ms=NOW_MS, policy="tiny", policy_version=0)


def test_the_duplicate_key_tells_authors_and_contents_apart():
    keys = {duplicate_key(author, header) for author in (bytes(32), b"\x01" * 32) for header in (b"a", b"b")}
    assert len(keys) == 4
