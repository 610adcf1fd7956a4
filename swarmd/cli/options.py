"""Options that several commands share: which node a command is about, and settings over those of the node's files."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from swarmd.control.client import ask
from swarmd.errors import ConfigError
from swarmd.files.datadir import DataDir, locate

if TYPE_CHECKING:
    from swarmd.config import Config

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])


@dataclass
class NodeOptions:
    """Which node a command is about, and what the command line sets of it. `own` are settings that have options of their own."""

    data_dir: str | None = None
    config_path: str | None = None
    own: dict[str, object] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> DataDir:
        """Where the node's files lie."""
        return locate(self.data_dir)

    @property
    def flags(self) -> dict[str, object]:
        """The settings on the command line by `section.key`; `--set` comes before an option of its own."""
        return {**self.own, **self.others}

    def config(self) -> "Config":
        """The settings in force. Raises ConfigError."""
        from swarmd.config import load_config

        path = Path(self.config_path) if self.config_path else None
        return load_config(flags=self.flags, path=path, data_dir=self.place.root)

    def ask(self, target: str, *, method: str = "GET") -> Any:
        """The decoded answer of the node that runs there; raises as `swarmd.control.client.ask`."""
        return ask(self.place.socket, target, method=method)


pass_node = click.make_pass_decorator(NodeOptions, ensure=True)


class _Own(NamedTuple):
    key: str
    metavar: str  # a switch has none
    help: str
    multiple: bool = False


# Settings with an option of their own.
_OWN = {
    "--model": _Own("policy.model", "NAME", "tiny, Qwen2.5-0.5B, a hub id, or a folder. [default: tiny]"),
    "--device": _Own("policy.device", "NAME", "Where the model runs: auto, cpu, cuda, cuda:N or mps. [default: auto]"),
    "--swarm": _Own("swarm.name", "NAME|FILE", "The swarm's manifest. [default: by the model]"),
    "--mix": _Own("experience.mix", "I/J", "Own and external rollouts in each round. [default: 4/4]"),
    "--tasks": _Own("questions.datasets", "A,B", "Datasets this node asks. [default: all of the swarm's]"),
    "--completions": _Own("experience.completions", "L", "Completions generated for each question. [default: 8]"),
    "--bootstrap": _Own("swarm.bootstrap", "ADDR", "Multiaddr with /p2p/ of a peer to join through; repeatable.", multiple=True),
    "--listen": _Own("swarm.listen", "ADDR", "Multiaddr to listen on. [default: /ip4/0.0.0.0/tcp/4810]"),
    "--metrics-port": _Own("control.metrics_port", "PORT", "Port of /metrics on loopback. [default: 9810]"),
    "--placement": _Own("policy.placement", "NAME", "One process for the model (shared) or two (split). [default: auto]"),
    "--plan": _Own("policy.plan", "NAME", "The memory plan; swarmd doctor memory lists them. [default: auto]"),
    "--solo": _Own("swarm.solo", "", "No network: train on own rollouts only."),
}  # fmt: skip


def data_dir_option(command: Command) -> Command:
    def keep(context: click.Context, option: click.Parameter, value: str | None) -> None:
        node = context.ensure_object(NodeOptions)
        node.data_dir = value or node.data_dir

    text = "Where the node's state lies. [default: ~/.local/state/swarmd]"
    return click.option("--data-dir", metavar="DIR", callback=keep, expose_value=False, help=text)(command)


def settings(*flags: str) -> Callable[[Command], Command]:
    """`--data-dir`, `--config`, `--set`, and those of the settings' own options that are named."""

    def keep_path(context: click.Context, option: click.Parameter, value: str | None) -> None:
        context.ensure_object(NodeOptions).config_path = value

    def keep_others(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> None:
        context.ensure_object(NodeOptions).others = parse_settings(value)

    def decorate(command: Command) -> Command:
        text = "Configuration file. [default: DIR/config.toml]"
        command = click.option("--config", metavar="FILE", callback=keep_path, expose_value=False, help=text)(
            command
        )
        command = click.option(
            "--set",
            multiple=True,
            metavar="SECTION.KEY=VALUE",
            callback=keep_others,
            expose_value=False,
            help="Any setting of docs/reference/config.md.",
        )(command)
        command = data_dir_option(command)
        for flag in reversed(flags):
            command = _own_option(flag, command)
        return command

    return decorate


def _own_option(flag: str, command: Command) -> Command:
    own = _OWN[flag]

    def keep(context: click.Context, option: click.Parameter, value: object) -> None:
        if value is not None and value is not False and value != ():
            context.ensure_object(NodeOptions).own[own.key] = value

    return click.option(
        flag,
        own.key.replace(".", "__"),
        metavar=own.metavar or None,
        multiple=own.multiple,
        is_flag=not own.metavar,
        callback=keep,
        expose_value=False,
        help=own.help,
    )(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print the API's document.")(command)


def echo(document: T, as_json: bool, shown: Callable[[T], str]) -> None:
    """A document for programs, or what is shown of it to people."""
    click.echo(json.dumps(document, indent=2) if as_json else shown(document))


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
