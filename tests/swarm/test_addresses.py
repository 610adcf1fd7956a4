"""Addresses: one form, checked at once, and known to one file."""

import ast
from pathlib import Path

import pytest

from swarmd.errors import ConfigError
from swarmd.swarm import addresses
from swarmd.swarm.addresses import (
    Scope,
    parse,
    parse_announce,
    parse_listen,
    parse_setting,
)

ID = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo"


def test_a_peer_address_has_host_port_and_peer():
    address = parse(f"/ip4/127.0.0.1/tcp/4810/p2p/{ID}")
    assert address is not None
    assert (address.host, address.port, address.peer_id, address.scope) == (
        "127.0.0.1",
        4810,
        ID,
        Scope.LOOPBACK,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "/ip4/127.0.0.1/tcp/4810",
        "/ip4/300.1.1.1/tcp/1/p2p/" + ID,
        "/ip4/1.2.3.4/tcp/99999/p2p/" + ID,
        "/ip4/1.2.3.4/udp/1/quic-v1/p2p/" + ID,
        "/ip4/1.2.3.4/tcp/1/p2p/not-an-id",
        f"/ip4/1.2.3.4/tcp/1/p2p/{ID}/p2p-circuit/p2p/{ID}",
        f"/ip4/1.2.3.4/tcp/1/ws/p2p/{ID}",
        f"/dns4/{'a' * 400}/tcp/1/p2p/{ID}",
        "\ud800",
        f"/dns4/\x1b[31m/tcp/1/p2p/{ID}",
        f"/dns4/a\nb/tcp/1/p2p/{ID}",
        f"/dns4/\u202eb/tcp/1/p2p/{ID}",
        f"/dns4/ünï.example/tcp/1/p2p/{ID}",
        f"/ip6/fe80::1%\x1b[31m/tcp/1/p2p/{ID}",
        "/ip4/1.2.3.4/tcp/1/p2p/" + ID + "/" * 1_000_000,
        None,
        7,
    ],
)
def test_anything_else_is_no_peer_address(text):
    assert parse(text) is None


@pytest.mark.parametrize(
    ("host", "scope"),
    [
        ("/ip4/0.0.0.0", Scope.UNUSABLE),
        ("/ip4/224.0.0.1", Scope.UNUSABLE),
        ("/ip4/127.8.8.8", Scope.LOOPBACK),
        ("/ip6/::1", Scope.LOOPBACK),
        ("/ip6/::ffff:127.0.0.1", Scope.LOOPBACK),
        ("/dns4/localhost", Scope.LOOPBACK),
        ("/ip4/192.168.1.2", Scope.PRIVATE),
        ("/ip4/169.254.169.254", Scope.PRIVATE),
        ("/ip4/8.8.8.8", Scope.PUBLIC),
    ],
)
def test_scope(host, scope):
    address = parse(f"{host}/tcp/1/p2p/{ID}")
    assert address is not None
    assert address.scope is scope


def test_a_malformed_setting_is_named():
    with pytest.raises(ConfigError, match=r"/ip4/1\.2\.3\.4/tcp/1") as caught:
        parse_setting("/ip4/1.2.3.4/tcp/1", "bootstrap")
    assert caught.value.exit_code == 2
    assert "/p2p/" in caught.value.why


@pytest.mark.parametrize(
    "text", ["/ip4/127.0.0.1", "/dns4/a.example/tcp/1", "/ip4/127.0.0.1/udp/1/quic-v1", "x"]
)
def test_listen_wants_an_ip_and_a_tcp_port(text):
    with pytest.raises(ConfigError):
        parse_listen(text)


@pytest.mark.parametrize("text", ["/ip4/0.0.0.0/tcp/4810", "/ip4/1.2.3.4/tcp/0", "/ip4/1.2.3.4"])
def test_announce_must_be_reachable(text):
    with pytest.raises(ConfigError):
        parse_announce(text)


def test_listening_everywhere_is_shown_as_something_dialable():
    assert parse_listen("/ip4/0.0.0.0/tcp/4810").shown()[-1] == "/ip4/127.0.0.1/tcp/4810"


def test_an_unspecified_host_is_filled_in_from_the_socket():
    claim = parse(f"/ip4/0.0.0.0/tcp/4810/p2p/{ID}")
    assert claim is not None
    filled = claim.seen_at("10.0.0.7")
    assert filled is not None
    assert filled.text == f"/ip4/10.0.0.7/tcp/4810/p2p/{ID}"


def test_another_form_of_address_touches_three_files():
    """Which text an address is; how it is dialled; what the host is given. `docs/hacking.md` says so."""
    room, knowing = Path(addresses.__file__).parent, set()
    for path in room.glob("*.py"):
        tree = ast.parse(path.read_text())
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            text = str(node.value) if isinstance(node, ast.Constant) and id(node) not in told else ""
            takes_apart = isinstance(node, ast.Name) and node.id == "multiaddr"
            if takes_apart or "/tcp" in text or "/p2p" in text:
                knowing.add(path.name)
    assert knowing == {"addresses.py", "dial.py", "host.py"}
