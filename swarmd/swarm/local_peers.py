"""Peers of the same swarm in the local network, found by multicast DNS: two machines at home meet without a bootstrap or a setting.

A node tells its network the service `_swarmd._udp.local` under a random name, with TXT entries as in libp2p's mDNS specification,
`dnsaddr=` and a multiaddr with /p2p/, beside `swarm=` and the topic. The service has a name of its own because a kubo or another
libp2p program in the same network is no peer of ours. What is heard is a hint like any other (`hints`) and costs as little.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable

import ifaddr
import trio
from zeroconf import ServiceBrowser, ServiceInfo, ServiceListener, Zeroconf

from swarmd.swarm.addresses import ListenAddress, PeerAddress, of_peer, parse
from swarmd.swarm.nets import machine_of, net_of

SERVICE = "_swarmd._udp.local."
# A laptop that moves to another network is heard there after so long.
LOOK_S = 15.0
# A machine has few addresses that others would dial. TXT entries hold 255 bytes.
HOSTS_MAX, ENTRIES_MAX = 4, 16
# Names of DNS records held. The library has no bound of its own: past this one the node leaves multicast for an hour.
NAMES_MAX, FLOODED_S = 2048, 3600.0
_OPEN_S_MAX, _CLOSE_S_MAX = 10.0, 5.0


class LocalPeers:
    """Tells and hears, until cancelled.

    Args:
        listen: with the port that the node really has.
        topic: of the swarm; nodes of others are passed over.
        found: called with each address of another node of the swarm.
        counters: `mdns_found`, `mdns_failed`, `mdns_flooded`.
    """

    def __init__(
        self,
        *,
        listen: ListenAddress,
        peer_id: str,
        topic: str,
        found: Callable[[PeerAddress], None],
        counters: Counter[str],
    ) -> None:
        self._listen, self._peer_id, self._topic = listen, peer_id, topic
        self._found, self._counters = found, counters

    async def run(self) -> None:
        """A network of this machine that comes or goes begins it anew; without any it waits for one."""
        while True:
            hosts = local_hosts(self._listen)
            if not hosts:
                await trio.sleep(LOOK_S)
                continue
            try:
                await self._live(hosts)
            except OSError:  # no multicast on this interface, or port 5353 is somebody's alone
                self._counters["mdns_failed"] += 1
                await trio.sleep(LOOK_S * 4)

    async def _live(self, hosts: list[str]) -> None:
        token = trio.lowlevel.current_trio_token()
        zeroconf = await trio.to_thread.run_sync(lambda: Zeroconf(interfaces=hosts))
        try:
            heard = _Listener(lambda text: token.run_sync_soon(self._heard, text))
            with trio.move_on_after(_OPEN_S_MAX):
                await trio.to_thread.run_sync(self._open, zeroconf, heard, hosts, abandon_on_cancel=True)
            while local_hosts(self._listen) == hosts:
                await trio.sleep(LOOK_S)
                if len(zeroconf.cache.cache) > NAMES_MAX:
                    self._counters["mdns_flooded"] += 1
                    break
            else:
                return
        finally:
            with trio.move_on_after(_CLOSE_S_MAX, shield=True):
                await trio.to_thread.run_sync(zeroconf.close, abandon_on_cancel=True)
        await trio.sleep(FLOODED_S)

    def _open(self, zeroconf: Zeroconf, heard: "_Listener", hosts: list[str]) -> None:
        """Tell our service, and listen for others'."""
        name = secrets.token_hex(16)
        heard.own_name = f"{name}.{SERVICE}"
        info = ServiceInfo(
            SERVICE,
            heard.own_name,
            port=self._listen.port,
            properties=self._entries(hosts),
            server=f"{name}.local.",
            parsed_addresses=hosts,
        )
        zeroconf.register_service(info)
        ServiceBrowser(zeroconf, SERVICE, listener=heard)

    def _entries(self, hosts: Iterable[str]) -> bytes:
        texts = [of_peer(ListenAddress(host, self._listen.port).text, self._peer_id) for host in hosts]
        entries = [f"swarm={self._topic}", *(f"dnsaddr={text}" for text in texts)]
        return b"".join(bytes([len(entry)]) + entry.encode() for entry in entries)

    def _heard(self, text: bytes) -> None:
        """What a service of the network says of itself."""
        for address in addresses_in(text, self._topic):
            if address.peer_id != self._peer_id:
                self._counters["mdns_found"] += 1
                self._found(address)


class _Listener(ServiceListener):
    """Hands on the TXT of every service but ours. Runs in the library's own thread."""

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self.own_name = ""
        self._tell = tell

    def add_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        if name == self.own_name:
            return
        info = ServiceInfo(type_, name)
        # What is announced comes whole. What is not in the cache by now is asked for, for a second.
        if (info.load_from_cache(zc) or info.request(zc, 1000)) and info.text:
            self._tell(info.text)

    update_service = add_service

    def remove_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        """A peer that leaves ends its connections."""


def addresses_in(text: bytes, topic: str) -> list[PeerAddress]:
    """The addresses in the TXT of a service of this swarm; none where it is another swarm's, or no TXT of ours."""
    at, entries = 0, list[bytes]()
    while at < len(text) and len(entries) < ENTRIES_MAX:
        size = text[at]
        entries.append(text[at + 1 : at + 1 + size])
        at += 1 + size
    if f"swarm={topic}".encode() not in entries:
        return []
    told = [entry.removeprefix(b"dnsaddr=") for entry in entries if entry.startswith(b"dnsaddr=")]
    parsed = [parse(entry.decode("ascii", "replace")) for entry in told]
    return [address for address in parsed if address is not None]


def local_hosts(listen: ListenAddress) -> list[str]:
    """This machine's addresses in local networks that it listens at; none for loopback.

    That with the default route comes first: containers and virtual machines have networks of their own.
    """
    if not listen.is_everywhere:
        return [] if listen.is_loopback or _is_special(listen.host) else [listen.host]
    wanted = 6 if ":" in listen.host else 4
    found = [
        str(ip.ip if ip.is_IPv4 else ip.ip[0])
        for adapter in ifaddr.get_adapters()
        for ip in adapter.ips
        if (4 if ip.is_IPv4 else 6) == wanted
    ]
    own = [host for host in found if not _is_special(host)]
    first = {base.split("/")[2] for base in listen.shown()}
    return sorted(dict.fromkeys(own), key=lambda host: host not in first)[:HOSTS_MAX]


def _is_special(host: str) -> bool:
    """Nobody of the network can dial it: loopback, link-local, a documentation net."""
    return net_of(host) is None or machine_of(host) == "loopback"
