"""T4: the default security list of py-libp2p accepts /plaintext and secio, over which anybody can claim any peer id; Noise only."""

from libp2p.abc import ISecureTransport
from libp2p.crypto.keys import KeyPair
from libp2p.crypto.x25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.security.noise.transport import PROTOCOL_ID, Transport


def security_options(key_pair: KeyPair) -> dict[TProtocol, ISecureTransport]:
    """The `sec_opt` of `new_host`: Noise with a fresh X25519 static key, signed by this identity.

    TLS is left out too: it fails against js-libp2p and brings nothing that Noise lacks.
    """
    return {PROTOCOL_ID: Transport(key_pair, noise_privkey=create_new_key_pair().private_key)}
