"""The targets by name, with the share of a session's time that each gets."""

from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType

# Behind the signature is where a stranger with a key of his own is, and where there is most to find.
SHARE_OF = MappingProxyType(
    {"message": 2, "behind": 5, "manifest": 1, "peers": 1, "contribute": 1, "http": 1, "rpc": 1}
)
# What coverage is measured in, per target. Native code (msgpack, zstd, pydantic) shows only by what it returns; the second reader,
# which does the same work in Python, makes the ways through it visible.
COVERED = MappingProxyType(
    {
        "message": ("swarmd.protocol", "tests.protocol.second"),
        "behind": ("swarmd.protocol", "tests.protocol.second"),
        "manifest": ("swarmd.protocol",),
        "peers": ("swarmd.swarm.exchange", "swarmd.swarm.addresses", "multiaddr"),
        "contribute": ("swarmd.contribute.lines", "json"),
        "http": ("swarmd.control", "h11"),
        "rpc": ("swarmd.swarm.hardening", "multiaddr"),
    }
)


def check_of(name: str) -> Callable[[bytes], None]:
    """The target's function."""
    check: Callable[[bytes], None] = import_module(f"tests.fuzz.{name}").check
    return check
