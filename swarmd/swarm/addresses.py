"""Peer addresses as text: parsed once, then trusted. Pure: no socket, no name look-up.

A `PeerAddress` is `/ip4|ip6|dns|dns4|dns6/.../tcp/N/p2p/ID` and nothing longer: no relay, no second transport, so that what an
operator, a file or a peer wrote can only ever make us open one TCP connection to one named peer. Other files ask an address for its
host, port, peer and scope, and never for its text's parts.
"""

import enum
import ipaddress
import socket
from dataclasses import dataclass

import multiaddr
from multiaddr.exceptions import Error as MultiaddrError

from swarmd.errors import ConfigError

# A DNS name has at most 253 bytes; with the rest of an address that is below 350.
ADDRESS_BYTES_MAX = 350
_HOST_PROTOCOLS = ("ip4", "ip6", "dns", "dns4", "dns6")


class Scope(enum.IntEnum):
    """How far away an address can be reached from; the order is the reach."""

    UNUSABLE = 0  # unspecified, multicast, port 0
    LOOPBACK = 1
    PRIVATE = 2
    PUBLIC = 3  # global addresses, and every name: only the resolver knows better


@dataclass(frozen=True)
class PeerAddress:
    """One dialable address of one peer."""

    text: str
    peer_id: str
    host: str
    port: int
    scope: Scope

    def seen_at(self, host: str) -> "PeerAddress | None":
        """The same peer and port at an IP address, where a socket to the peer was seen to end; None where it names nobody."""
        return parse(of_peer(_at(host, self.port), self.peer_id))


def parse(text: object) -> PeerAddress | None:
    """The address, or None for anything that is not exactly the one form we dial. ASCII: an international name as `xn--...`."""
    if not isinstance(text, str) or not text.isascii() or len(text) > ADDRESS_BYTES_MAX:
        return None
    try:
        address = multiaddr.Multiaddr(text)
        parts = [(protocol.name, str(value)) for protocol, value in address.items()]
    except (MultiaddrError, ValueError, LookupError, UnicodeError):
        return None
    match parts:
        case [(kind, host), ("tcp", port), ("p2p", peer_id)] if kind in _HOST_PROTOCOLS:
            return PeerAddress(str(address), peer_id, host, int(port), _scope(kind, host, int(port)))
    return None


def parse_setting(text: str, setting: str) -> PeerAddress:
    """The same for what an operator wrote.

    Raises:
        ConfigError: naming the entry and what is wrong with it.
    """
    address = parse(text)
    if address is None:
        missing = "" if "/p2p/" in str(text) else "; the /p2p/ part with the peer's id is missing"
        raise ConfigError(
            f"{setting}: {text!r} is not a peer address",
            f"it must read /ip4|ip6|dns4/HOST/tcp/PORT/p2p/PEER_ID{missing}",
            "copy the address that `swarmd status` prints on that node",
        )
    if address.scope is Scope.UNUSABLE:
        raise ConfigError(f"{setting}: nobody can be reached at {text!r}", "its host or its port is zero")
    return address


@dataclass(frozen=True)
class ListenAddress:
    """Where this node accepts connections: an IP address and a TCP port, 0 for any."""

    host: str
    port: int

    @property
    def text(self) -> str:
        return _at(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def is_everywhere(self) -> bool:
        return ipaddress.ip_address(self.host).is_unspecified

    def shown(self) -> list[str]:
        """Addresses for people to dial. For every interface: the one with the default route, then loopback."""
        if not self.is_everywhere:
            return [self.text]
        loopback = "::1" if ":" in self.host else "127.0.0.1"
        hosts = dict.fromkeys([*_default_route_host(self.host), loopback])
        return [ListenAddress(host, self.port).text for host in hosts]

    def local(self) -> list[str]:
        """Beside `text`: what a node that listens everywhere is called in its local network, where it has one."""
        if not self.is_everywhere:
            return []
        found = [ListenAddress(host, self.port).text for host in _default_route_host(self.host)]
        return [
            text
            for text in found
            if (address := parse(of_peer(text, _ANY_PEER))) and address.scope is Scope.PRIVATE
        ]


def _default_route_host(any_host: str) -> list[str]:
    """The kernel's choice for the internet; a datagram socket that connects sends nothing."""
    family, far = (socket.AF_INET6, "2001:db8::1") if ":" in any_host else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((far, 9))
            return [str(probe.getsockname()[0])]
        except OSError:
            return []


def parse_listen(text: str) -> ListenAddress:
    """`/ip4/HOST/tcp/PORT`.

    Raises:
        ConfigError: when it is anything else.
    """
    try:
        match [(protocol.name, str(value)) for protocol, value in multiaddr.Multiaddr(text).items()]:
            case [("ip4" | "ip6", host), ("tcp", port)]:
                return ListenAddress(host, int(port))
    except (MultiaddrError, ValueError, LookupError):
        pass
    raise ConfigError(f"cannot listen on {text!r}", "it must read /ip4/HOST/tcp/PORT or /ip6/HOST/tcp/PORT")


def parse_announce(text: str) -> str:
    """The address others are told, without `/p2p/`: one, since a stock peer dials only the first.

    Raises:
        ConfigError: when it is not `/ip4|ip6|dns4/HOST/tcp/PORT`, or when nobody can reach it (zero host or port).
    """
    base = text.split("/p2p/")[0]
    probe = parse(of_peer(base, _ANY_PEER))
    if probe is None or probe.scope is Scope.UNUSABLE:
        raise ConfigError(
            f"cannot announce {text!r}", "it must read /ip4|ip6|dns4/HOST/tcp/PORT, neither of them 0"
        )
    return base


# Some valid id, to check the rest of an address with.
_ANY_PEER = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo"


def of_peer(base: str, peer_id: str) -> str:
    """Where a peer can be dialled, as text; `base` says where it listens."""
    return f"{base}/p2p/{peer_id}"


def _at(host: str, port: int) -> str:
    return f"/{'ip6' if ':' in host else 'ip4'}/{host}/tcp/{port}"


def _scope(protocol: str, host: str, port: int) -> Scope:
    if port == 0:
        return Scope.UNUSABLE
    if protocol.startswith("dns"):
        return Scope.LOOPBACK if host == "localhost" or host.endswith(".localhost") else Scope.PUBLIC
    try:
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return Scope.UNUSABLE
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback:  # first: Python also calls ::1 reserved
        return Scope.LOOPBACK
    if ip.is_unspecified or ip.is_multicast or ip.is_reserved:
        return Scope.UNUSABLE
    return Scope.PUBLIC if ip.is_global else Scope.PRIVATE
