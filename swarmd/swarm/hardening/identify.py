"""identify: stock keeps what a stranger says of itself (a thousand addresses, any number of protocols and records of 1 MiB), and a
cache of parsed addresses is keyed by the bytes as they came: 200 pushes of one address of 1 MB each are 200 MB for good.

A node of a swarm has little use for any of it. It dials addresses of `/swarmd/peers/1`, and asks for a protocol by opening a
stream. It reads two fields: the address at which the other end sees it, and of the agent which library it is (`message_ids`). It
keeps the text of neither. Its own answers are stock's.
"""

import trio
from google.protobuf.message import DecodeError
from libp2p.abc import INetStream
from libp2p.exceptions import BaseLibp2pError
from libp2p.host.basic_host import BasicHost
from libp2p.identity.identify.identify import ID
from libp2p.identity.identify.pb.identify_pb2 import Identify
from libp2p.identity.identify_push.identify_push import ID_PUSH
from libp2p.peer.id import ID as PeerID
from libp2p.utils.varint import read_varint_prefixed_bytes_limited
from multiaddr import Multiaddr
from multiaddr.exceptions import Error as MultiaddrError

from swarmd.recent import Recent
from swarmd.swarm.hardening.counters import Counters, contained
from swarmd.swarm.hardening.message_ids import PEERS_MAX, Form, form_of_agent

# go-libp2p's limit for the same message; ours is 400 bytes.
ANSWER_BYTES_MAX = 8192
# /ip6 and /tcp are 20 bytes; a relayed address some more.
OBSERVED_BYTES_MAX = 128
# The library's name is at its beginning.
AGENT_CHARS_MAX = 64
IDENTIFY_S_MAX = 10.0


def bound_identify(host: BasicHost, counters: Counters) -> None:
    """Replace the host's two readers of identify. Counts `identify_failed`.

    The host gets `forms`: how the libraries of its peers write message ids.
    """
    host.forms = Recent(PEERS_MAX)

    async def identify_peer(peer: PeerID, *, reason: str) -> None:
        connections = host.get_network().get_connections(peer)
        if not connections:
            return
        observed = None
        with contained(counters, "identify_failed"), trio.fail_after(IDENTIFY_S_MAX):
            answer = await _ask(host, peer)
            host.forms[peer] = form_in(answer)
            observed = observed_address(answer)
        if not host.get_network().get_connections(peer):
            return
        host._identified_peers[peer] = ""  # nobody reads when; its presence keeps stock from asking again
        if observed is not None and host._observed_addr_manager is not None:
            with contained(counters, "identify_failed"):
                host._observed_addr_manager.record_observation(
                    connections[0], observed, host.get_transport_addrs()
                )

    host._identify_peer = identify_peer
    host.set_stream_handler(ID_PUSH, _unread)


async def _ask(host: BasicHost, peer: PeerID) -> bytes:
    """A peer's answer, unread."""
    stream = await host.new_stream(peer, [ID])
    try:
        return bytes(await read_varint_prefixed_bytes_limited(stream, ANSWER_BYTES_MAX))
    finally:
        with trio.move_on_after(1, shield=True):
            await stream.reset()


def observed_address(answer: bytes) -> Multiaddr | None:
    """The observed address in an answer; None where there is none, or nothing that could be one."""
    message = Identify()
    try:
        message.ParseFromString(answer)
        if not 0 < len(message.observed_addr) <= OBSERVED_BYTES_MAX:
            return None
        address = Multiaddr(message.observed_addr)
        str(address)  # parsed only now
    except (DecodeError, MultiaddrError, ValueError, BaseLibp2pError):
        return None
    return address


def form_in(answer: bytes) -> Form:
    """How the library that an answer names writes message ids; the specification's way where it names none."""
    message = Identify()
    try:
        message.ParseFromString(answer)
    except DecodeError:
        return Form.SPECIFIED
    return form_of_agent(message.agent_version[:AGENT_CHARS_MAX])


async def _unread(stream: INetStream) -> None:
    """Reset the stream of a push. The node uses nothing of it, and only a reset frees the bytes on their way."""
    await stream.reset()
