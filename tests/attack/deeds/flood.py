"""Attacks by number: more valid, distinct, dear messages than anybody can look at."""

import trio
from libp2p.peer.peerinfo import PeerInfo

from tests.attack import craft
from tests.attack.peer import HostilePeer
from tests.attack.ring import Ring

# Messages a second and identity: over twice what one forwarder may have validated. Faster, and on two cores the attacker's own
# work would be most of what the victims lose.
FLOOD_PER_S = 120.0
# Twenty hosts in one process that has a tenth of two cores get no stream through in minutes: the flood would be none.
FLOODERS, FLOODERS_IN_COMPANY = 20, 5


async def flood_one(ring: Ring) -> None:
    """One identity."""
    async with ring.peer() as peer:
        await _flood(ring, peer, FLOOD_PER_S)


async def flood_twenty(ring: Ring) -> None:
    """Twenty identities, each with a connection, together twice as fast as the one; in company five, each as fast."""
    num = FLOODERS_IN_COMPANY if ring.in_company else FLOODERS
    async with ring.peers(num, listens=False) as peers, trio.open_nursery() as nursery:
        for peer in peers:
            nursery.start_soon(_flood, ring, peer, FLOOD_PER_S / 10)


async def _flood(ring: Ring, peer: HostilePeer, per_s: float) -> None:
    """All victims at once, each as fast as it takes it."""
    async with trio.open_nursery() as nursery:
        for victim in peer.victims:
            nursery.start_soon(_flood_one, ring, peer, victim, per_s)


async def _flood_one(ring: Ring, peer: HostilePeer, victim: PeerInfo, per_s: float) -> None:
    """A new message each time: 64 rollouts of 64 empty answers, in turn with 32 long ones."""
    counter, number = 64 * 10**6 * peer.victims.index(victim), 0
    while True:
        # A message costs its maker a millisecond: eighty floods that make theirs for nobody would leave their process no time
        # to get a connection at all.
        while not peer.connected_to(victim):
            await trio.sleep(1)
        due = trio.current_time() + 1 / per_s
        if number % 2:
            data = craft.empty_batch(peer.identity, ring.manifest, counter)
        else:
            text = "<answer>" + "7 " * 2000 + "</answer>"
            rollouts = [craft.rollout(0, counter + n, [text + str(n), text]) for n in range(16)]
            data = craft.batch(peer.identity, ring.manifest, rollouts)
        counter, number = counter + 64, number + 1
        await peer.send(data, [victim])
        await trio.sleep_until(due)
