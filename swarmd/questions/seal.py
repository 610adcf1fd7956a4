"""Seal a manifest: compute the golden digest of each of its datasets here, and write them into its TOML file.

An unsealed manifest is a draft: no node starts with it, since two nodes with different generators would not notice.
"""

import re
from collections.abc import Sequence

from swarmd.errors import ConfigError
from swarmd.protocol.manifest import DatasetSpec, Manifest
from swarmd.questions.regenerate import DatasetChoice
from swarmd.questions.sandbox import SandboxMode
from swarmd.questions.zygote_process import Setup, ZygoteProcess

_HEADER = re.compile(r"\s*\[\[\s*datasets\s*\]\]\s*(#.*)?$")
_ANY_HEADER = re.compile(r"\s*\[")
_GOLDEN = re.compile(r"\s*golden\s*=")


def goldens_of(manifest: Manifest) -> list[str]:
    """The golden digest of each dataset, from the reasoning_gym installed here, computed in a process of its own.

    Raises:
        IncompatibleSwarm: a dataset is not offered, or the installed reasoning_gym is not the one that this build was tested with.
        ConfigError: parameters out of bounds. LocalError: the process did not start.
    """
    zygote = ZygoteProcess(setup_of(manifest, seal=True))
    try:
        return zygote.start()
    finally:
        zygote.close()


def sealed(manifest: Manifest, goldens: Sequence[str]) -> Manifest:
    datasets = [
        DatasetSpec.model_validate(spec.model_dump() | {"golden": golden})
        for spec, golden in zip(manifest.datasets, goldens, strict=True)
    ]
    return manifest.model_copy(update={"datasets": datasets})


def seal_toml(data: bytes, goldens: Sequence[str], source: str) -> bytes:
    """The TOML document with a `golden` line in each `[[datasets]]`; everything else stays as it was written.

    Raises:
        ConfigError: the datasets are not written as `[[datasets]]` tables, so the lines have to be put in by hand.
    """
    wanted = sealed(Manifest.from_toml(data, source), goldens)
    written = _with_lines(data.decode(), goldens).encode()
    try:
        right = Manifest.from_toml(written, source) == wanted
    except ConfigError:
        right = False
    if not right:
        raise ConfigError(
            f"{source}: its datasets are not plain [[datasets]] tables",
            "the digests were computed, but there is no safe place to write them",
            "put them in by hand, in this order: " + ", ".join(f'golden = "{digest}"' for digest in goldens),
        )
    return written


def setup_of(
    manifest: Manifest, *, sandbox: SandboxMode = "off", seal: bool = False, seccomp: bool = True
) -> Setup:
    """The first message to a zygote of this manifest."""
    choices = [
        DatasetChoice(spec.name, spec.params, spec.reward, "" if seal else spec.golden)
        for spec in manifest.datasets
    ]
    return Setup(choices, manifest.answer_format, sandbox, seal, seccomp)


def _with_lines(text: str, goldens: Sequence[str]) -> str:
    """Each table gets its line after the last one that is neither blank nor a comment; an older line goes."""
    left = list(goldens)
    lines: list[str] = []
    within = False

    def close() -> None:
        place = len(lines)
        while not lines[place - 1].strip() or lines[place - 1].lstrip().startswith("#"):
            place -= 1
        lines.insert(place, f'golden = "{left.pop(0)}"' if left else "")

    for line in text.splitlines():
        if within and _ANY_HEADER.match(line):
            close()
            within = False
        if _HEADER.match(line):
            within = True
        if not (within and _GOLDEN.match(line)):
            lines.append(line)
    if within:
        close()
    return "\n".join(lines) + "\n"
