"""Stock grafts one or two peers more on every beat as long as the mesh scores as well as the others ("opportunistic grafting"), so
the mesh climbs to its upper bound: 14 to 15 copies of each message among 16 hosts. The specification does that once a minute, and
only where the median of the mesh scores below a threshold.
"""

from libp2p.pubsub.gossipsub import GossipSub


class SteadyDegree(GossipSub):  # type: ignore[misc]
    """GossipSub whose mesh grows when it is too small, and shrinks when it is too large.

    Nothing stands in for what is left out. A peer whose score falls below 0 leaves the mesh at the next beat (`back_off`), and what
    a mesh of silent peers does not forward comes by flood publishing and by IHAVE.
    """

    def _perform_opportunistic_grafting(self, topic: str, peers_to_graft: object) -> int:
        return 0
