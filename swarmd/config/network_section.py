"""What a node takes of others at a time: connections, handshakes, messages."""

from pydantic import Field

from swarmd.config.section import Section

# Connections beside those that come in: own dials, and the second one of two peers that dial each other at once.
OWN_CONNECTIONS = 50


class NetworkLimits(Section):
    """Limits on connections and their messages; the defaults fit a home node in a public swarm."""

    inbound_max: int = Field(
        100,
        ge=1,
        le=2000,
        description="Inbound connections. Each takes about 2 MB, and CPU for what it sends.",
    )
    inbound_per_ip_max: int = Field(
        8,
        ge=1,
        le=2000,
        description="Of these from one address (IPv4) or one /64 (IPv6): a household or an office. It counts once half of all are"
        " taken.",
    )
    inbound_per_net_max: int = Field(
        32, ge=1, le=2000, description="Of these from one /24 (IPv4) or one /48 (IPv6); likewise."
    )
    pending_max: int = Field(64, ge=1, le=1000, description="Handshakes under way.")
    pending_per_ip_max: int = Field(4, ge=1, le=1000, description="Of these from one address or one /64.")
    peers_wanted: int = Field(
        12,
        ge=0,
        le=100,
        description="Peers that this node dials itself, because others named them or it knew them; the mesh wants 6.",
    )
    messages_per_s_max: float = Field(
        50.0,
        gt=0,
        le=10_000,
        description="Messages a second of one forwarder, before any rule runs; one costs about 8 ms of CPU.",
    )
    messages_burst_max: int = Field(200, ge=1, le=100_000, description="Of these at once.")

    @property
    def connections_max(self) -> int:
        """Connections in all."""
        return self.inbound_max + OWN_CONNECTIONS
