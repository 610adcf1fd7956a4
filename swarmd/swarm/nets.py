"""Which network an IP address is in: public, one of our own, or none that a stranger may have us dial. No name look-up.

A net is the piece of the address space that one party usually holds: a /24 or a /48 of the internet, one local network.
Hosts of one net count as one party where peers are to be diverse.
"""

import ipaddress
import socket
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# IANA's special-purpose registries. A stranger's address in them is refused: this host, link-local with the metadata services of
# clouds, documentation, benchmarks, 6to4 relays, multicast, reserved.
_SPECIAL: tuple[Network, ...] = (
    ipaddress.ip_network("0.0.0.0/8"),
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("192.0.2.0/24"),
    ipaddress.ip_network("192.88.99.0/24"),
    ipaddress.ip_network("198.18.0.0/15"),
    ipaddress.ip_network("198.51.100.0/24"),
    ipaddress.ip_network("203.0.113.0/24"),
    ipaddress.ip_network("224.0.0.0/4"),
    ipaddress.ip_network("240.0.0.0/4"),
    ipaddress.ip_network("2001::/23"),  # Teredo among them
    ipaddress.ip_network("2001:db8::/32"),
    ipaddress.ip_network("2002::/16"),  # 6to4
    ipaddress.ip_network("3fff::/20"),
)
# IPv6 is public here only. So ::ffff:0:0/96 and 64:ff9b::/96, which embed IPv4, are not.
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
# Local ranges, each with the length of the prefix that makes one local network. A carrier or an overlay such as Tailscale hands
# out addresses anywhere in 100.64.0.0/10; a unique local prefix is a /48 by its definition (RFC 4193).
_LOCAL: tuple[tuple[Network, int], ...] = (
    (ipaddress.ip_network("127.0.0.0/8"), 8),
    (ipaddress.ip_network("10.0.0.0/8"), 16),
    (ipaddress.ip_network("172.16.0.0/12"), 16),
    (ipaddress.ip_network("192.168.0.0/16"), 16),
    (ipaddress.ip_network("100.64.0.0/10"), 10),
    (ipaddress.ip_network("::1/128"), 128),
    (ipaddress.ip_network("fc00::/7"), 48),
)
# One party gets this from its provider: a /24 is the smallest routed piece of IPv4, a /48 the usual site of IPv6.
_PUBLIC_V4, _PUBLIC_V6 = 24, 48
# One machine in IPv6 has at least a /64.
_HOST_V6 = 64


@dataclass(frozen=True)
class Net:
    """One network, by its prefix."""

    prefix: str
    is_public: bool


def net_of(host: str) -> Net | None:
    """The network of an IP address; None for names and for addresses that are neither public nor of a local network."""
    ip = _ip(host)
    if ip is None:
        return None
    for network, length in _LOCAL:
        if ip in network:
            return Net(_prefix(ip, length), False)
    if any(ip in network for network in _SPECIAL):
        return None
    if isinstance(ip, ipaddress.IPv4Address):
        return Net(_prefix(ip, _PUBLIC_V4), True)
    return Net(_prefix(ip, _PUBLIC_V6), True) if ip in _GLOBAL_V6 else None


def machine_of(host: str) -> str:
    """One machine is an IPv4 address, a /64 of IPv6, all of loopback, or a name."""
    ip = _ip(host)
    if ip is not None and ip.is_loopback:
        return "loopback"
    return _prefix(ip, _HOST_V6) if isinstance(ip, ipaddress.IPv6Address) else host


def plain(host: str) -> str:
    """The far end of a socket without its zone, and as IPv4 where a dual-stack socket shows `::ffff:1.2.3.4`."""
    ip = _ip(host)
    return str(getattr(ip, "ipv4_mapped", None) or ip) if ip is not None else host


def source_towards(host: str) -> str | None:
    """Our own address from which the kernel would speak to this one; a datagram socket that connects sends nothing."""
    if _ip(host) is None:  # a name would be looked up
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _ip(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _prefix(ip: Address, length: int) -> str:
    return str(ipaddress.ip_network((ip, length), strict=False))
