"""Flow: what fair queueing serves by turns. All messages for which one peer answers are one flow."""

from typing import NamedTuple


class Flow(NamedTuple):
    """Messages for which `peer` answers: its own ones, or those that it relays of others.

    `shares` says whether the flow's quota is that of all who are not proven.
    """

    peer: bytes
    own: bool
    shares: bool = True


def flow_of(author: bytes, bringer: bytes, *, connected: bool) -> Flow:
    """The flow of a message. A connected author answers for its messages, whoever brings them; for all others the bringer does.

    Connections are few to an address, and names cost nothing.
    """
    own = connected or author == bringer
    return Flow(author if own else bringer, own)
