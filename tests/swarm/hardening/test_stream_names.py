"""Names of protocols: bounded in length and number, whoever reads them."""

import contextlib

import pytest
import trio
from libp2p.io.exceptions import IOException
from libp2p.protocol_muxer.exceptions import MultiselectCommunicatorError
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator
from libp2p.utils import encode_uvarint, encode_varint_prefixed, read_delim

from swarmd.swarm.hardening.stream_names import NAME_BYTES_MAX, NAMES_MAX, install_bounded_names
from tests.swarm.hardening.kit import HARDENED, answers, becomes, running


@pytest.fixture(autouse=True)
def _installed():
    install_bounded_names()


class Endless:
    """A connection on which a peer says this, and then zeros for ever."""

    def __init__(self, said):
        self._said, self.num_read = said, 0

    async def read(self, size):
        chunk, self._said = self._said[:size], self._said[size:]
        chunk = chunk or bytes(min(size, 65_536))
        self.num_read += len(chunk)
        return chunk


async def test_stock_reads_megabytes_of_a_name_that_never_ends():
    peer = Endless(encode_uvarint(2**31))
    with pytest.raises(IOException):
        await read_delim(peer)
    assert peer.num_read > 6_000_000


async def test_a_name_that_is_too_long_is_not_read():
    peer = Endless(encode_uvarint(2**31))
    with pytest.raises(MultiselectCommunicatorError):
        await MultiselectCommunicator(peer).read()
    assert peer.num_read == 2


@pytest.mark.parametrize("size", [1, NAME_BYTES_MAX])
async def test_names_within_the_bound_are_read(size):
    name = "n" * (size - 1)
    assert (
        await MultiselectCommunicator(Endless(encode_varint_prefixed(name.encode() + b"\n"))).read() == name
    )


@pytest.mark.parametrize(
    "said",
    [
        b"\x00",
        encode_varint_prefixed(b"n" * NAME_BYTES_MAX + b"\n"),
        b"\x02no",
        b"\x02\xff\n",
        b"\xff\x80\x01",
    ],
    ids=["empty", "one too long", "no end", "no text", "long length"],
)
async def test_other_names_end_the_negotiation(said):
    with pytest.raises(MultiselectCommunicatorError):
        await MultiselectCommunicator(Endless(said)).read()


async def test_one_end_proposes_no_more_names_than_the_bound():
    communicator = MultiselectCommunicator(Endless(b"\x02a\n" * 1000))
    for _ in range(NAMES_MAX):
        assert await communicator.read() == "a"
    with pytest.raises(MultiselectCommunicatorError):
        await communicator.read()


async def test_a_stranger_that_announces_a_long_name_is_left_before_it_has_sent_it():
    async with running(HARDENED) as victim:
        victim.addresses = victim.host.get_addrs()
        port = int(victim.addresses[0].value_for_protocol("tcp"))
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"\x13/multistream/1.0.0\n" + encode_uvarint(2**31))
            with contextlib.suppress(trio.BrokenResourceError):  # reset: not all that was sent was read
                while await stream.receive_some(4096):
                    pass
        assert await becomes(lambda: victim.counters["inbound_failed"] == 1)
        assert await answers(victim)
