"""Options that several commands share."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swarmd.errors import ConfigError

if TYPE_CHECKING:
    from swarmd.config import Config
    from swarmd.files.datadir import DataDir

Command = Callable[..., Any]


def data_dir_option(command: Command) -> Command:
    """`--data-dir`."""
    return click.option(
        "--data-dir", metavar="DIR", help="Where the node's state lies. [default: ~/.local/state/swarmd]"
    )(command)


def json_option(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print the API's document.")(command)


def config_options(command: Command) -> Command:
    """`--config` and `--set`."""
    command = click.option(
        "--config", "config_path", metavar="FILE", help="Configuration file. [default: DIR/config.toml]"
    )(command)
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="SECTION.KEY=VALUE",
        help="Any setting of docs/reference/config.md.",
    )(command)


def setting(flag: str, key: str, **attributes: Any) -> Callable[[Command], Command]:
    """An option of its own for the setting `key`; see `flags_of`."""
    return click.option(flag, key.replace(".", "__"), **attributes)


def flags_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings on the command line by `section.key`: the options of `setting` that were given, and `--set`."""
    given = {
        name.replace("__", "."): value
        for name, value in options.items()
        if "__" in name and value is not None and value is not False and value != ()
    }
    return given | parse_settings(options["settings"])


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """`--set section.key=value` as a mapping. Raises ConfigError when there is no `=`."""
    parsed = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or "." not in key:
            raise ConfigError(
                f"--set {text!r} is not SECTION.KEY=VALUE",
                fix="for example --set update.learning_rate=1e-5",
            )
        parsed[key.strip()] = value.strip()
    return parsed


def load(flags: Mapping[str, Any], config_path: str | None, data_dir: "DataDir") -> "Config":
    """The settings in force with these flags. Raises ConfigError."""
    from swarmd.config import load_config

    path = Path(config_path) if config_path else None
    return load_config(flags=flags, path=path, data_dir=data_dir.root)
