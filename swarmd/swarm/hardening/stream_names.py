"""multistream-select, which chooses a protocol on every connection and stream: stock reads a name of any length, before anybody has
proved who it is. A dozen sockets that announce names of 2 GiB had a node hold 1 GB within four seconds.
"""

from libp2p.io.abc import Reader
from libp2p.io.exceptions import IncompleteReadError, IOException
from libp2p.protocol_muxer.exceptions import MultiselectCommunicatorError
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator

# The longest name in use is under 60. A length of one or two bytes, so that there is nothing to wait for in a third.
NAME_BYTES_MAX = 1024
# Names that one end proposes for one stream: swarmd's own ends propose three at most, others some dozens.
NAMES_MAX = 64


def install_bounded_names() -> None:
    """Bound what this process reads as names of protocols; installing again changes nothing."""
    MultiselectCommunicator.read = _read_name


async def _read_name(communicator: MultiselectCommunicator) -> str:
    """The next name, as stock's `read` gives it.

    Raises:
        MultiselectCommunicatorError: too long, too many, no text, or the stream ended. The negotiation fails by it.
    """
    num = communicator.__dict__.get("num_names", 0) + 1
    if num > NAMES_MAX:
        raise MultiselectCommunicatorError("too many names")
    communicator.num_names = num
    try:
        first = (await read_exactly(communicator.read_writer, 1))[0]
        size = first & 0x7F
        if first & 0x80:
            size |= (await read_exactly(communicator.read_writer, 1))[0] << 7
        if not 0 < size <= NAME_BYTES_MAX:
            raise MultiselectCommunicatorError("the name is empty or too long")
        name = (await read_exactly(communicator.read_writer, size)).decode()
    except (IOException, UnicodeDecodeError) as error:
        raise MultiselectCommunicatorError("no name") from error
    if not name.endswith("\n"):
        raise MultiselectCommunicatorError("the name has no end")
    return name[:-1]


async def read_exactly(reader: Reader, size: int) -> bytes:
    """So many bytes, in however many pieces they come. Raises IncompleteReadError where the stream ends before."""
    data = b""
    while len(data) < size:
        chunk = await reader.read(size - len(data))
        if not chunk:
            raise IncompleteReadError("the stream ended early")
        data += chunk
    return data
