"""TOML documents, shipped and made up, that are manifests in every way to write one, and documents that are none."""

from dataclasses import dataclass

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.protocol.manifest import FOLDER, Manifest

SHORTEST = """\
name = "short"
prompt_template = "{question}"
answer_format = "plain"
scorer_version = 1
[[datasets]]
name = "gcd"
"""
LINES = 'prompt_template = """\n{question}\nAnswer:\n"""'


@dataclass(frozen=True)
class TomlCase:
    """A document, and the manifest in it; None: it is none."""

    name: str
    document: str
    manifest: Manifest | None


def toml_cases() -> list[TomlCase]:
    """Those that are manifests first."""
    good = {f"shipped: {path.stem}": path.read_text() for path in sorted(FOLDER.glob("*.toml"))}
    good |= {
        "everything left out that can be": SHORTEST,
        "everything said that can be left out": "version = 2\nepoch = 0\nheld_out_per_mille = 50\nlimits = {}\n"
        + SHORTEST
        + 'params = {}\nweight = 1.0\nreward = "upstream"\ngolden = ""\n',
        "a weight that is an integer": SHORTEST + "weight = 1\n",
        "a whole float and an integer as parameters": SHORTEST
        + "params = { a = 2.0, b = 2, c = [-0.0, 0] }\n",
        "one limit": "limits.rollouts_max = 8\n" + SHORTEST,
        "lines that end in LF": SHORTEST.replace('prompt_template = "{question}"', LINES),
        "lines that end in CR LF": SHORTEST.replace('prompt_template = "{question}"', LINES).replace(
            "\n", "\r\n"
        ),
        "CR LF as escapes": SHORTEST.replace("{question}", r"{question}\r\n"),
    }
    bad = {
        "no name": SHORTEST.replace('name = "short"\n', ""),
        "no scorer version": SHORTEST.replace("scorer_version = 1\n", ""),
        "no dataset": SHORTEST.partition("[[")[0],
        "a dataset without a name": SHORTEST.replace('name = "gcd"', "weight = 1.0"),
        "a field nobody knows": "seed = 1\n" + SHORTEST,
        "a weight that is a bool": SHORTEST + "weight = true\n",
        "a weight that is text": SHORTEST + 'weight = "1"\n',
        "a float as an epoch": "epoch = 0.0\n" + SHORTEST,
        "a date as a parameter": SHORTEST + "params = { a = 2020-01-01 }\n",
        "not a number as a parameter": SHORTEST + "params = { a = nan }\n",
        "version 1": "version = 1\n" + SHORTEST,
        "version 3": "version = 3\n" + SHORTEST,
        "no TOML": SHORTEST + "weight =\n",
        "a key twice": SHORTEST + 'name = "lcm"\n',
    }
    read = [
        TomlCase(name, document, Manifest.from_toml(document.encode())) for name, document in good.items()
    ]
    for name, document in bad.items():
        try:
            Manifest.from_toml(document.encode())
        except (ConfigError, IncompatibleSwarm):
            read.append(TomlCase(name, document, None))
            continue
        raise AssertionError(f"taken: {name}")
    return read
