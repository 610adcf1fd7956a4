"""Peer ids to keys and back, and nothing that is no peer id."""

import random

import pytest

from swarmd.protocol.signing import Identity, peer_id_of
from swarmd.trust.peer_key import key_of, key_of_multihash, peer_id_of_key

KEY = Identity.from_seed(b"k" * 32).public_key
PEER_ID = peer_id_of(KEY)
# Of an RSA key (js-libp2p's old default), and of a secp256k1 key: libp2p specs, peer-ids/peer-ids.md.
RSA = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"
SECP = "16Uiu2HAmAzcKPTsRcKjqr8xsdwVEKGuYPKMTxzzDazmcgi3uF4L5"


@pytest.mark.parametrize("seed", range(20))
def test_an_author_and_its_peer_id_are_one(seed: int) -> None:
    key = random.Random(seed).randbytes(32)
    assert key_of(peer_id_of(key)) == key
    assert peer_id_of_key(key) == peer_id_of(key)


@pytest.mark.parametrize("peer_id", [RSA, SECP])
def test_other_kinds_of_keys_go_by_their_hash_and_are_no_author(peer_id: str) -> None:
    key = key_of(peer_id)
    assert len(key) != 32
    assert peer_id_of_key(key) == peer_id
    assert key_of_multihash(key) == key


def test_what_libp2p_holds_is_the_same_key() -> None:
    assert key_of_multihash(bytes.fromhex("002408011220") + KEY) == KEY


@pytest.mark.parametrize(
    "text",
    ["", "x", "1", "1" * 61, "12D3KooW", PEER_ID[:-1], PEER_ID + "1", PEER_ID.replace("D", "0"), PEER_ID + " ",
     "1" + PEER_ID, "node-1", "\x1b[2J", "z" * 10_000, KEY.hex(), RSA[:-1], "/p2p/" + PEER_ID],
)  # fmt: skip
def test_anything_else_is_no_peer_id(text: str) -> None:
    with pytest.raises(ValueError, match="12D3KooW"):
        key_of(text)


@pytest.mark.parametrize("seed", range(200))
def test_no_noise_is_taken_for_another_peer(seed: int) -> None:
    rng = random.Random(seed)
    letters = list(PEER_ID)
    letters[rng.randrange(len(letters))] = rng.choice(
        "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    )
    try:
        key = key_of("".join(letters))
    except ValueError:
        return
    assert peer_id_of_key(key) == "".join(letters)
