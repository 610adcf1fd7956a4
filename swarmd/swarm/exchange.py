"""`/swarmd/peers/1`: ask a connected peer whom else it is connected to. Two frames, then the stream is closed.

Why not the Kademlia DHT of py-libp2p: a DHT finds one peer among millions, a swarm of tens wants all of them. The DHT needs peers
added and refreshed by hand, keeps routing and value stores that strangers write to, and serves five kinds of request. This protocol
is two frames of at most 16 KiB, holds no state of strangers beyond their live connection, and both of its ends are on this page.

A frame is a big-endian u16 length and a msgpack map `{"addresses": [text, ...], "agent": text}`. The asker sends where it
believes it listens, the answerer where the peers it is connected to can be reached, and in `you` how it sees the asker: where its
connection comes from, and whether it answered a knock there. The agent is program and version, for people only. Nothing is signed:
an address names the peer id that the Noise handshake must then prove. What is believed and passed on is in `hearsay` and
`whereabouts`; what a lie can make a node do is in `hints`.
"""

import ipaddress
from dataclasses import dataclass
from typing import NamedTuple

import msgpack
import trio
from libp2p.abc import IHost, INetStream
from libp2p.custom_types import TProtocol
from libp2p.exceptions import BaseLibp2pError
from libp2p.io.exceptions import IncompleteReadError
from libp2p.peer.id import ID

import swarmd
from swarmd.protocol.wire import refuse_extension
from swarmd.swarm.addresses import PeerAddress, parse
from swarmd.swarm.hardening.stream_names import read_exactly

PROTOCOL = TProtocol("/swarmd/peers/1")
# 32 addresses of 350 bytes fit the frame. A small swarm is told in one answer, a large one bit by bit.
ADDRESSES_MAX = 32
FRAME_BYTES_MAX = 16_384
EXCHANGE_S_MAX = 10.0


AGENT = f"swarmd/{swarmd.__version__}"
_AGENT_CHARS_MAX = 64
_HOST_CHARS_MAX = 45  # IPv6 with an embedded IPv4 address


class BadFrame(Exception):
    """The other end sent something that is not this protocol."""


class You(NamedTuple):
    """How an answerer sees the asker: the IP address that its connection comes from, and whether it answered a knock there.

    `reached` is None where nobody has knocked.
    """

    host: str
    reached: bool | None


@dataclass(frozen=True)
class Frame:
    """One end's words. `agent` is cut to 64 characters of printable ASCII: it may reach a terminal."""

    addresses: list[PeerAddress]
    agent: str
    you: You | None = None


def encode_frame(addresses: list[str], you: You | None = None) -> bytes:
    """The frame for at most ADDRESSES_MAX addresses."""
    content: dict[str, object] = {"addresses": addresses[:ADDRESSES_MAX], "agent": AGENT}
    if you is not None:
        reached = {} if you.reached is None else {"reached": you.reached}
        content["you"] = {"host": you.host, **reached}
    body = bytes(msgpack.packb(content))
    return len(body).to_bytes(2, "big") + body


def decode_body(body: bytes) -> Frame:
    """A frame's body with the addresses of it that can be used.

    Raises:
        BadFrame: when it is not the map above. An entry that is not an address is left out: a later version may know more forms.
    """
    try:
        content = msgpack.unpackb(
            body, max_map_len=8, max_array_len=256, max_ext_len=0, ext_hook=refuse_extension
        )
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise BadFrame("not msgpack") from error
    entries = content.get("addresses") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise BadFrame("no addresses")
    parsed = (parse(entry) for entry in entries[:ADDRESSES_MAX])
    agent = content.get("agent")
    # Only text: the text of a thousand arrays in each other would be a RecursionError.
    agent = agent[:_AGENT_CHARS_MAX] if isinstance(agent, str) else ""
    shown = "".join(c if " " <= c <= "~" else "?" for c in agent)
    return Frame([address for address in parsed if address is not None], shown, _you(content.get("you")))


def _you(content: object) -> You | None:
    """How the answerer sees us; None for anything else than an IP address and perhaps a boolean."""
    if not isinstance(content, dict):
        return None
    host, reached = content.get("host"), content.get("reached")
    if not isinstance(host, str) or len(host) > _HOST_CHARS_MAX:
        return None
    try:
        seen = str(ipaddress.ip_address(host))
    except ValueError:
        return None
    return You(seen, reached if isinstance(reached, bool) else None)


async def ask(host: IHost, peer: ID, own: list[str]) -> Frame:
    """Hints from one connected peer.

    Raises:
        BadFrame: it broke the protocol, does not speak it, or was gone.
    """
    try:
        with trio.fail_after(EXCHANGE_S_MAX):
            stream = await host.new_stream(peer, [PROTOCOL])
            try:
                await stream.write(encode_frame(own))
                reply = decode_body(await _read_body(stream))
                await stream.close()
            except BaseException:
                await _reset(stream)
                raise
    except (BaseLibp2pError, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise BadFrame(type(error).__name__) from error
    return reply


async def answer(stream: INetStream, reply: list[str], you: You | None = None) -> None:
    """Write our half, as answerer, and close."""
    await stream.write(encode_frame(reply, you))
    await stream.close()


async def read_question(stream: INetStream) -> Frame:
    """The asker's own addresses, as it believes.

    Raises:
        BadFrame: it broke the protocol.
    """
    return decode_body(await _read_body(stream))


async def _read_body(stream: INetStream) -> bytes:
    try:
        size = int.from_bytes(await read_exactly(stream, 2), "big")
        if size > FRAME_BYTES_MAX:
            raise BadFrame("too long")
        return await read_exactly(stream, size)
    except IncompleteReadError as error:
        raise BadFrame("ended early") from error


async def _reset(stream: INetStream) -> None:
    with trio.move_on_after(1, shield=True):
        try:
            await stream.reset()
        except (BaseLibp2pError, trio.BrokenResourceError, trio.ClosedResourceError):
            return
