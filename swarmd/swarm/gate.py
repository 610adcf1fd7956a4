"""The gate: banned peers are refused as soon as the handshake has proved who they are, and those who are inside are put out.

The daemon decides who is banned and says so at this process's start and after each change; nothing here bans anybody.
"""

from collections import Counter
from collections.abc import Iterable

import trio
from libp2p.abc import INetworkService, IRawConnection
from libp2p.peer.id import ID
from libp2p.security.secure_session import SecureSession
from libp2p.transport.exceptions import SecurityUpgradeFailure

from swarmd.trust.peer_key import key_of_multihash, multihash_of_key

# Closing waits for the other side to take the last bytes; a frozen one does not.
CLOSE_S_MAX = 2.0
# A banned peer that was between its handshake and its registration when the ban came is put out after this.
EXPEL_PERIOD_S = 1.0


class Gate:
    """Who is banned, by key.

    Args:
        counters: `banned_connections` counts connections that were refused or closed.
    """

    def __init__(self, keys: Iterable[bytes], counters: Counter[str]) -> None:
        self._keys = frozenset(keys)
        self._counters = counters

    def replace(self, keys: Iterable[bytes]) -> None:
        """From now on exactly these."""
        self._keys = frozenset(keys)

    @property
    def ids(self) -> set[ID]:
        return {ID(multihash_of_key(key)) for key in self._keys}

    def bans(self, peer: ID) -> bool:
        return key_of_multihash(peer.to_bytes()) in self._keys

    def bans_key(self, key: bytes) -> bool:
        """Whether the peer of this key, an author for example, is banned."""
        return key in self._keys

    def watch(self, network: INetworkService) -> None:
        """Refuse banned peers on this network, whoever dialled."""
        upgrader = network.upgrader
        secure = upgrader.upgrade_security

        async def upgrade_security(
            connection: IRawConnection, is_initiator: bool, peer_id: ID | None = None
        ) -> SecureSession:
            secured = await secure(connection, is_initiator, peer_id)
            if self.bans(secured.get_remote_peer()):
                self._counters["banned_connections"] += 1
                with trio.move_on_after(CLOSE_S_MAX):
                    await secured.close()
                raise SecurityUpgradeFailure("the peer is banned")
            return secured

        upgrader.upgrade_security = upgrade_security

    async def keep_out(self, network: INetworkService) -> None:
        """Expel banned peers again and again, until cancelled."""
        while True:
            await self.expel(network)
            await trio.sleep(EXPEL_PERIOD_S)

    async def expel(self, network: INetworkService) -> None:
        async with trio.open_nursery() as nursery:
            for peer in [peer for peer in network.connections if self.bans(peer)]:
                self._counters["banned_connections"] += 1
                nursery.start_soon(_close, network, peer)


async def _close(network: INetworkService, peer: ID) -> None:
    with trio.move_on_after(CLOSE_S_MAX):
        await network.close_peer(peer)
