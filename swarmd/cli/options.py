"""Options that several commands share."""

from collections.abc import Callable
from typing import Any

import click

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
