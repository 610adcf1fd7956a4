"""Networks of addresses: what is public, what is local, and what is neither."""

import pytest

from swarmd.swarm.nets import machine_of, net_of, plain, source_towards


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:8.8.8.8",  # IPv4 in IPv6, in all its ways
        "::8.8.8.8",
        "64:ff9b::808:808",
        "64:ff9b:1::808:808",
        "2002:808:808::1",
        "2001:0:808:808::1",
        "localhost",
        "node.example",
        "",
    ],
)
def test_no_network_that_a_stranger_may_name(host):
    assert net_of(host) is None


@pytest.mark.parametrize(
    ("host", "prefix"),
    [
        ("127.8.8.8", "127.0.0.0/8"),
        ("::1", "::1/128"),
        ("10.1.2.3", "10.1.0.0/16"),
        ("172.31.2.3", "172.31.0.0/16"),
        ("192.168.7.7", "192.168.0.0/16"),
        ("100.127.0.1", "100.64.0.0/10"),
        ("fd7a:115c:a1e0:1::5", "fd7a:115c:a1e0::/48"),
    ],
)
def test_local_networks(host, prefix):
    net = net_of(host)
    assert net is not None
    assert (net.prefix, net.is_public) == (prefix, False)


@pytest.mark.parametrize(
    ("host", "prefix"),
    [
        ("8.8.8.8", "8.8.8.0/24"),
        ("172.32.0.1", "172.32.0.0/24"),
        ("100.128.0.1", "100.128.0.0/24"),
        ("2a00:1450:4001:82a::200e", "2a00:1450:4001::/48"),
        ("2001:200::1", "2001:200::/48"),
    ],
)
def test_public_networks(host, prefix):
    net = net_of(host)
    assert net is not None
    assert (net.prefix, net.is_public) == (prefix, True)


def test_one_machine_has_a_whole_64_of_ipv6_and_all_of_loopback():
    assert machine_of("2a00:1:2:3::5") == machine_of("2a00:1:2:3:ffff::9") != machine_of("2a00:1:2:4::5")
    assert machine_of("127.0.0.1") == machine_of("127.9.9.9") == machine_of("::1")
    assert machine_of("8.8.8.8") != machine_of("8.8.8.9")


def test_the_far_end_of_a_dual_stack_socket_is_plain_ipv4():
    assert [plain(host) for host in ("::ffff:8.8.8.8", "fe80::1%eth0", "::1", "8.8.8.8")] == [
        "8.8.8.8",
        "fe80::1",
        "::1",
        "8.8.8.8",
    ]


def test_the_source_towards_loopback_is_loopback_and_a_name_is_not_looked_up():
    assert source_towards("127.0.0.1") == "127.0.0.1"
    assert source_towards("localhost") is None
