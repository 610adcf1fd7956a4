"""The only reader of TOML and environment: which settings are in force, and where each of them came from.

A value comes from the first of: command line, `SWARMD_SECTION__KEY` in the environment, the file (`--config`, else `config.toml`
in the data directory, else `/etc/swarmd/config.toml`), the default.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from swarmd.config.sections import Config, known_keys
from swarmd.errors import ConfigError
from swarmd.files.reading import read_within

ENV_PREFIX = "SWARMD_"
# Read elsewhere than in a section, so not misspelt settings.
ENV_OTHERS = {"SWARMD_DATA_DIR"}
# The reference of all settings has 30 kB.
FILE_BYTES_MAX = 2**20
SYSTEM_FILE = Path("/etc/swarmd/config.toml")


def load_config(
    *,
    flags: Mapping[str, object],
    environ: Mapping[str, str] = os.environ,
    path: Path | None = None,
    data_dir: Path | None = None,
) -> Config:
    """The settings in force.

    Args:
        flags: `section.key` to value, as given on the command line.
        environ: the environment.
        path: a configuration file; it must exist. Without it, the two usual places are tried.
        data_dir: the data directory, whose `config.toml` is one of them.

    Raises:
        ConfigError: unreadable or malformed file, unknown key, bad value; the message names the key and where it came from.
    """
    values: dict[str, dict[str, object]] = {}
    origin: dict[str, str] = {}

    def put(key: str, value: object, where: str) -> None:
        section, _, name = key.partition(".")
        values.setdefault(section, {})[name] = value
        origin[key] = where

    for file in _files(path, data_dir):
        for section, content in _read_toml(file).items():
            if not isinstance(content, dict):
                raise ConfigError(
                    f"{file}: {section!r} is not a section",
                    "settings stand in sections",
                    f"write [{section}]",
                )
            for name, value in content.items():
                put(f"{section}.{name}", value, str(file))
    for variable, text in environ.items():
        if variable.startswith(ENV_PREFIX) and variable not in ENV_OTHERS:
            key = variable.removeprefix(ENV_PREFIX).lower().replace("__", ".", 1)
            put(key, _from_text(text), f"environment variable {variable}")
    for key, value in flags.items():
        put(key, _from_text(value) if isinstance(value, str) else value, "the command line")
    for key, where in origin.items():
        _check_key(key, where)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _explain(error, origin) from None


def _files(path: Path | None, data_dir: Path | None) -> list[Path]:
    """From the weakest to the strongest."""
    if path is not None:
        if not path.is_file():
            raise ConfigError(f"there is no configuration file {path}", fix="check --config")
        return [path]
    places = [SYSTEM_FILE] + ([data_dir / "config.toml"] if data_dir else [])
    return [
        place for place in places if os.path.exists(place)
    ]  # Path.exists raises where a folder is closed to us


def _read_toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_within(file, FILE_BYTES_MAX).decode())
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}", str(error), "make it readable, or pass another with --config"
        ) from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # also integers of 5,000 digits, and brackets within brackets
        raise ConfigError(
            f"{file} is not valid TOML", str(error), "mend the file, or pass another with --config"
        ) from None


def _from_text(text: str) -> object:
    """A value from a variable or flag: JSON where it is JSON, else the text."""
    try:
        value = json.loads(text)
    except (
        ValueError,
        RecursionError,
    ):  # no JSON, a number of thousands of digits, or brackets within brackets
        return text
    return value if not isinstance(value, dict) else text


def _check_key(key: str, where: str) -> None:
    keys = known_keys()
    if key in keys:
        return
    name = key.partition(".")[2]
    near = difflib.get_close_matches(key, keys, 1, 0.6) or [k for k in keys if k.endswith(f".{name}")]
    hint = f"did you mean {near[0]!r}?" if near else f"sections are {', '.join(Config.model_fields)}"
    raise ConfigError(f"unknown setting {key!r}", f"it comes from {where}", hint)


def _explain(error: ValidationError, origin: Mapping[str, str]) -> ConfigError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"][:2])
    message = first["msg"].removeprefix("Value error, ")
    return ConfigError(
        f"bad value {first.get('input')!r:.200} for {key!r}: {message}",
        f"it comes from {origin.get(key, 'the defaults')}",
        "docs/reference/config.md describes every setting",
    )
