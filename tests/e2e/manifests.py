"""Manifests for tests with real nodes: sealed here, as `swarmd manifest seal` does."""

from swarmd.protocol.manifest import Manifest
from swarmd.questions.seal import goldens_of, seal_toml


def sealed_toml(text: str) -> bytes:
    """The TOML document with the golden digest of each dataset."""
    data = text.encode()
    return seal_toml(data, goldens_of(Manifest.from_toml(data)), "a test's manifest")
