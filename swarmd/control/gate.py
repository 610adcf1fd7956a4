"""Who may ask on the TCP port, by the header of a request alone: nobody's web page. Pure."""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from swarmd.control.http import Gate, Response

# The longest name of DNS is 253, and a port is 6 more.
HOST_BYTES_MAX = 260
UNKNOWN_HOST = Response(b"unknown host\n", 421)
ANOTHER_SITE = Response(b"not for the script of a web page\n", 403)


def gate_of(hosts: frozenset[str]) -> Gate:
    """A gate for a port of this machine.

    Against DNS rebinding, `Host` has to be a number, `localhost`, or one of `hosts`. A page of another site reaches the port by its
    number all the same and cannot read the answer, so it may not cost us one either.
    """

    def judge(headers: Iterable[tuple[bytes, bytes]]) -> Response | None:
        fields = dict(headers)
        if not host_is_ours(fields.get(b"host", b""), hosts):
            return UNKNOWN_HOST
        return ANOTHER_SITE if _is_of_another_site(fields) else None

    return judge


def host_is_ours(raw: bytes, hosts: frozenset[str]) -> bool:
    """Whether a client on this machine would call the machine by this name, with or without a port."""
    if len(raw) > HOST_BYTES_MAX:
        return False
    name = re.sub(r":[0-9]{1,5}\Z", "", raw.decode("ascii", "replace").lower())
    if name in hosts or name == "localhost":
        return True
    try:
        ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


def _is_of_another_site(fields: dict[bytes, bytes]) -> bool:
    """Browsers add `Origin` to a script's request to another site, and say of every request where it comes from and what for.

    A person who follows a link to /metrics is let in.
    """
    if b"origin" in fields:
        return True
    return fields.get(b"sec-fetch-site") == b"cross-site" and fields.get(b"sec-fetch-dest") != b"document"
