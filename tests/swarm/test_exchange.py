"""The peer exchange: what a frame is, and what is refused. No network."""

import json
from pathlib import Path

import msgpack
import pytest

from swarmd.protocol.signing import Identity
from swarmd.swarm import exchange
from swarmd.swarm.addresses import PeerAddress, parse
from tests.swarm.nodes import seed

ID = Identity.from_seed(seed(1)).peer_id


def at(host: str, peer_id: str = ID, port: int = 4810) -> PeerAddress:
    address = parse(f"{host}/tcp/{port}/p2p/{peer_id}")
    assert address is not None
    return address


def test_a_frame_comes_back():
    frame = exchange.encode_frame([at("/ip4/10.0.0.1").text])
    assert int.from_bytes(frame[:2], "big") == len(frame) - 2
    assert exchange.decode_body(frame[2:]).addresses == [at("/ip4/10.0.0.1")]


def test_the_largest_frame_fits():
    longest = f"/dns4/{'.'.join(['a' * 60] * 4)}/tcp/65535/p2p/{ID}"
    assert len(exchange.encode_frame([longest] * 100)) <= exchange.FRAME_BYTES_MAX


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\xff" * 50,
        msgpack.packb([]),
        msgpack.packb({}),
        msgpack.packb({"addresses": "x"}),
        b"\x91" * 5000,
    ],
)
def test_a_body_of_another_shape_is_refused(body):
    with pytest.raises(exchange.BadFrame):
        exchange.decode_body(body)


def test_entries_that_are_no_addresses_are_left_out():
    body = msgpack.packb({"addresses": [1, None, "x", at("/ip4/10.0.0.1").text, b"\xff"]})
    assert exchange.decode_body(body).addresses == [at("/ip4/10.0.0.1")]


@pytest.mark.parametrize("agent", [b"\xc0", b"\x07", b"\x80", b"\xc4\x01x", b"\x91" * 1000 + b"\xc0"])
def test_an_agent_that_is_no_text_is_passed_over(agent):
    assert exchange.decode_body(b"\x82\xa9addresses\x90\xa5agent" + agent).agent == ""


@pytest.mark.parametrize("reached", [True, False, None])
def test_how_the_asker_is_seen_comes_back(reached):
    you = exchange.You("1.2.3.4", reached)
    assert exchange.decode_body(exchange.encode_frame([], you)[2:]).you == you


@pytest.mark.parametrize(
    "you",
    [None, 1, "1.2.3.4", [], {}, {"reached": True}, {"host": "example.org"}, {"host": 7}, {"host": "1" * 99}],
)
def test_a_view_of_another_shape_is_passed_over(you):
    assert exchange.decode_body(msgpack.packb({"addresses": [], "you": you})).you is None


def test_a_view_may_leave_out_what_it_does_not_know():
    body = msgpack.packb({"addresses": [], "you": {"host": "1.2.3.4", "reached": "yes", "more": 1}})
    assert exchange.decode_body(body).you == exchange.You("1.2.3.4", None)


def test_an_agent_cannot_reach_a_terminal_unescaped():
    body = msgpack.packb({"addresses": [], "agent": "\x1b[2J" + "x" * 500})
    agent = exchange.decode_body(body).agent
    assert agent.isprintable()
    assert len(agent) == 64


FRAMES = json.loads((Path(__file__).parents[2] / "proto" / "vectors" / "peers.json").read_text())["cases"]


class Bytes:
    """A stream that gives what it has, byte by byte, and then ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read(self, size: int) -> bytes:
        piece, self._data = self._data[:1], self._data[1:]
        return piece


@pytest.mark.parametrize("case", FRAMES, ids=lambda case: case["name"])
async def test_a_frame_of_the_vectors_is_read_or_refused(case):
    stream = Bytes(bytes.fromhex(case["frame"]))
    if case["addresses"] is None:
        with pytest.raises(exchange.BadFrame):
            await exchange.read_question(stream)
    else:
        frame = await exchange.read_question(stream)
        assert [address.text for address in frame.addresses] == case["addresses"]
        assert frame.agent == case["agent"]


def test_our_own_frame_is_one_of_the_vectors():
    (case,) = [case for case in FRAMES if case["name"] == "two addresses"]
    frame = exchange.encode_frame(case["addresses"])
    agent = exchange.AGENT.encode()
    theirs = bytes.fromhex(case["frame"])
    assert frame[2:].replace(bytes([0xA0 + len(agent)]) + agent, b"\xa3x/1") == theirs[2:]
