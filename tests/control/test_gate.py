"""The gate of the TCP port: names that are ours, and pages that are not."""

import pytest

from swarmd.control.gate import ANOTHER_SITE, HOST_BYTES_MAX, UNKNOWN_HOST, gate_of

GATE = gate_of(frozenset({"node"}))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9810", "127.0.0.1", "localhost:9810", "LocalHost", "[::1]:9810", "[::1]", "10.2.3.4", "node", "node:9810"],
)  # fmt: skip
def test_hosts_that_are_ours(host: str) -> None:
    assert GATE([(b"host", host.encode())]) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9810", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:1:2", "", "1..2",
     "a@127.0.0.1", "127.0.0.1:", "127.0.0.1:999999", "[127.0.0.1", "0x7f.1", "127.1", "2130706433", "\u0661", "127.0.0.1\n",
     "1" * HOST_BYTES_MAX + "1"],
)  # fmt: skip
def test_a_rebound_name_is_refused(host: str) -> None:
    assert GATE([(b"host", host.encode())]) is UNKNOWN_HOST


def test_a_request_without_a_host_is_refused() -> None:
    assert GATE([]) is UNKNOWN_HOST


@pytest.mark.parametrize(
    "fields",
    [
        {b"origin": b"https://evil.example"},
        {b"origin": b"null"},
        {b"sec-fetch-site": b"cross-site"},
        {b"sec-fetch-site": b"cross-site", b"sec-fetch-dest": b"image"},
        {b"sec-fetch-site": b"cross-site", b"sec-fetch-dest": b"iframe"},
    ],
)
def test_a_page_of_another_site_is_refused(fields: dict[bytes, bytes]) -> None:
    assert GATE([(b"host", b"127.0.0.1"), *fields.items()]) is ANOTHER_SITE


@pytest.mark.parametrize(
    "fields",
    [
        {b"sec-fetch-site": b"none", b"sec-fetch-dest": b"document"},
        {b"sec-fetch-site": b"cross-site", b"sec-fetch-dest": b"document"},
        {b"sec-fetch-site": b"same-origin", b"sec-fetch-dest": b"empty"},
        {b"user-agent": b"Prometheus/3.13.1"},
    ],
)
def test_people_and_probes_are_let_in(fields: dict[bytes, bytes]) -> None:
    assert GATE([(b"host", b"127.0.0.1"), *fields.items()]) is None


def test_the_host_is_judged_before_the_site() -> None:
    assert GATE([(b"origin", b"http://127.0.0.1"), (b"host", b"evil.example")]) is UNKNOWN_HOST
