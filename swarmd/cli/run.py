"""`swarmd start`: run a node in the foreground."""

import contextlib
import logging
import sys
from pathlib import Path
from typing import Any

import click

from swarmd.cli.options import config_options, data_dir_option
from swarmd.cli.printable import PrintableFormatter, readable
from swarmd.errors import ConfigError


@click.command()
@click.option("--model", metavar="NAME", help="tiny, Qwen2.5-0.5B, a hub id, or a folder. [default: tiny]")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    help="Where the model runs. [default: auto]",
)
@click.option(
    "--swarm", "swarm_name", metavar="NAME|FILE", help="The swarm's manifest. [default: by the model]"
)
@click.option("--mix", metavar="I/J", help="Own and external rollouts in each round. [default: 4/4]")
@click.option(
    "--tasks",
    metavar="NAMES",
    help="Datasets this node asks, with commas between them. [default: all of the swarm's]",
)
@click.option("--completions", metavar="L", help="Completions generated for each question. [default: 8]")
@click.option(
    "--bootstrap",
    multiple=True,
    metavar="ADDR",
    help="Multiaddr with /p2p/ of a peer to join through; repeatable.",
)
@click.option("--listen", metavar="ADDR", help="Multiaddr to listen on. [default: /ip4/0.0.0.0/tcp/4810]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the default listen address.")
@click.option("--metrics-port", metavar="PORT", help="Port of /metrics on loopback. [default: 9810]")
@click.option(
    "--placement", type=click.Choice(["auto", "shared", "split"]), help="One or two processes for the model."
)
@click.option(
    "--plan",
    metavar="NAME",
    help="The memory plan; swarmd doctor memory lists them. [default: auto]",
)
@click.option("--solo", is_flag=True, help="No network: train on own rollouts only.")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Stop after round N.")
@data_dir_option
@config_options
@click.option("-v", "--verbose", is_flag=True, help="Say more on stderr.")
def start(**options: Any) -> None:
    """Run a node in the foreground: check, join, generate, share, learn."""
    flags = _flags(options)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if options["verbose"] else logging.WARNING, handlers=[handler])
    from swarmd.config import load_config
    from swarmd.files.datadir import claim, locate

    data_dir = locate(options["data_dir"])
    claim(data_dir)
    path = Path(options["config_path"]) if options["config_path"] else None
    config = load_config(flags=flags, path=path, data_dir=data_dir.root)

    import trio

    from swarmd.node.life import run_node

    async def run() -> None:
        await run_node(config, data_dir, rounds_max=options["rounds"], explicit=set(flags), say=say)

    trio.run(run)


def say(line: str) -> None:
    """One line for the person at the terminal; a terminal that is gone, or a full disk behind it, does not end the node."""
    with contextlib.suppress(OSError):
        print(readable(line), flush=True)


# Which setting each option stands for.
_SETTINGS = {
    "model": "policy.model",
    "device": "policy.device",
    "placement": "policy.placement",
    "plan": "policy.plan",
    "swarm_name": "swarm.name",
    "mix": "experience.mix",
    "completions": "experience.completions",
    "tasks": "questions.datasets",
    "listen": "swarm.listen",
    "metrics_port": "control.metrics_port",
}


def _flags(options: dict[str, Any]) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    if options["port"] is not None:
        if options["listen"]:
            raise ConfigError("--port and --listen exclude each other", fix="write the port into --listen")
        flags["swarm.listen"] = f"/ip4/0.0.0.0/tcp/{options['port']}"
    for option, key in _SETTINGS.items():
        if options[option] is not None:
            flags[key] = options[option]
    if options["bootstrap"]:
        flags["swarm.bootstrap"] = list(options["bootstrap"])
    if options["solo"]:
        flags["swarm.solo"] = True
    return flags | parse_settings(options["settings"])


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """`--set section.key=value` as a mapping. Raises ConfigError when there is no `=`."""
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or "." not in key:
            raise ConfigError(
                f"--set {setting!r} is not SECTION.KEY=VALUE",
                fix="for example --set update.learning_rate=1e-5",
            )
        parsed[key.strip()] = value.strip()
    return parsed
