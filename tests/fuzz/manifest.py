"""Target: a manifest, as canonical bytes and as TOML."""

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.protocol.manifest import MANIFEST_BYTES_MAX, Manifest
from tests.fuzz.finding import require
from tests.fuzz.meter import METER
from tests.protocol.second import manifest as second
from tests.protocol.second.formats import Bad

# Read once, at a node's start, by an operator's wish: not a message. What is promised is only that it ends.
TOML_BYTES_MAX = 20_000


def check(data: bytes) -> None:
    """Read the bytes both ways; what is taken is the one form of itself.

    Raises:
        Finding: a promise is broken.
        Exception: anything but ConfigError and IncompatibleSwarm that a reader raised.
    """
    try:
        manifest = METER.timed(lambda: _from_bytes(data))
    except (ConfigError, IncompatibleSwarm) as error:
        _check_text(str(error))
        require(not _second_takes(data), f"the second reader takes it; ours says {error}")
    else:
        require(_second_takes(data), "the second reader does not take it")
        require(manifest.to_bytes() == data, "not canonical, but taken")
        _check_manifest(manifest)
    try:
        manifest = Manifest.from_toml(data[:TOML_BYTES_MAX])
    except (ConfigError, IncompatibleSwarm) as error:
        _check_text(str(error))
    else:
        _check_manifest(manifest)


def _second_takes(data: bytes) -> bool:
    try:
        second.read(data)
    except Bad:
        return False
    return True


def _from_bytes(data: bytes) -> Manifest:
    return Manifest.from_bytes(data)


def _check_manifest(manifest: Manifest) -> None:
    data = manifest.to_bytes()
    require(len(data) <= MANIFEST_BYTES_MAX, f"{len(data)} bytes")
    again = Manifest.from_bytes(data)
    require((again, again.digest, again.topic) == (manifest, manifest.digest, manifest.topic), "not itself")
    require(manifest.topic.isascii() and manifest.topic.isprintable(), f"topic {manifest.topic!r}")
    require(0 <= manifest.question_seed(bytes(32), 0, 7) < 2**31, "a seed out of range")


def _check_text(text: str) -> None:
    require(len(text) < 2000, f"an error of {len(text)} characters")
    require(text.replace("\n", "").isprintable(), f"{text!r:.400}")
