"""JSON documents that carry a checksum, so that damage is told from content, and a later program's file from both.

    {"sha256": "…", "version": 4, …}

The SHA-256 is of every byte behind it. A person can read the document; whoever edits it by hand has to leave the checksum out of a
file of a version that had none.
"""

import hashlib
import json
from collections.abc import Mapping

_BEFORE, _BEHIND = b'{"sha256": "', b'", '


class NewerVersion(ValueError):
    """A later version of this program wrote the file: it is whole, and not ours to read or to replace."""


def encode_checked(version: int, content: Mapping[str, object]) -> bytes:
    """The document with this version and content, which has no key `version` or `sha256` of its own."""
    rest = json.dumps({"version": version, **content})[1:].encode()
    return _BEFORE + hashlib.sha256(rest).hexdigest().encode() + _BEHIND + rest


def decode_checked(data: bytes, version: int, *, unchecked: int = 0) -> dict[str, object]:
    """The document's content, with its `version`.

    Args:
        version: what this program reads.
        unchecked: the last version that had no checksum, and is read too; 0 for none.

    Raises:
        NewerVersion: a later program wrote it. ValueError: it is not as it was written.
    """
    try:
        content: object = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(content, dict):
        raise ValueError(f"it is a {type(content).__name__} and no document")
    if "sha256" in content and not _is_whole(data):
        raise ValueError("its SHA-256 differs")
    found = content.get("version")
    if type(found) is not int:
        raise ValueError(f"its version is {found!r:.20}")
    if found > version:
        raise NewerVersion(f"it has version {found}, this program reads up to {version}")
    if found != (version if "sha256" in content else unchecked):
        raise ValueError(f"it has version {found}, this program reads {version} with its SHA-256")
    return content


def _is_whole(data: bytes) -> bool:
    start = len(_BEFORE) + 2 * hashlib.sha256().digest_size
    rest = data[start + len(_BEHIND) :]
    return data == _BEFORE + hashlib.sha256(rest).hexdigest().encode() + _BEHIND + rest
