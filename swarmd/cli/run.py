"""`swarmd start`: run a node in the foreground."""

import contextlib
import logging
import sys
from collections.abc import Mapping
from typing import Any

import click

from swarmd.cli.options import config_options, data_dir_option, flags_of, load, setting
from swarmd.cli.printable import PrintableFormatter, readable
from swarmd.errors import ConfigError


@click.command()
@setting(
    "--model",
    "policy.model",
    metavar="NAME",
    help="tiny, Qwen2.5-0.5B, a hub id, or a folder. [default: tiny]",
)
@setting(
    "--device",
    "policy.device",
    metavar="NAME",
    help="Where the model runs: auto, cpu, cuda, cuda:N or mps. [default: auto]",
)
@setting("--swarm", "swarm.name", metavar="NAME|FILE", help="The swarm's manifest. [default: by the model]")
@setting(
    "--mix", "experience.mix", metavar="I/J", help="Own and external rollouts in each round. [default: 4/4]"
)
@setting(
    "--tasks",
    "questions.datasets",
    metavar="NAMES",
    help="Datasets this node asks, with commas between them. [default: all of the swarm's]",
)
@setting(
    "--completions",
    "experience.completions",
    metavar="L",
    help="Completions generated for each question. [default: 8]",
)
@setting(
    "--bootstrap",
    "swarm.bootstrap",
    multiple=True,
    metavar="ADDR",
    help="Multiaddr with /p2p/ of a peer to join through; repeatable.",
)
@setting(
    "--listen",
    "swarm.listen",
    metavar="ADDR",
    help="Multiaddr to listen on. [default: /ip4/0.0.0.0/tcp/4810]",
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the default listen address.")
@setting(
    "--metrics-port",
    "control.metrics_port",
    metavar="PORT",
    help="Port of /metrics on loopback. [default: 9810]",
)
@setting(
    "--placement",
    "policy.placement",
    metavar="NAME",
    help="One process for the model (shared) or two (split). [default: auto]",
)
@setting(
    "--plan",
    "policy.plan",
    metavar="NAME",
    help="The memory plan; swarmd doctor memory lists them. [default: auto]",
)
@setting("--solo", "swarm.solo", is_flag=True, help="No network: train on own rollouts only.")
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
    from swarmd.files.datadir import claim, locate

    data_dir = locate(options["data_dir"])
    claim(data_dir)
    config = load(flags, options["config_path"], data_dir)

    import trio

    from swarmd.node.life import run_node

    async def run() -> None:
        await run_node(config, data_dir, rounds_max=options["rounds"], explicit=set(flags), say=say)

    trio.run(run)


def say(line: str) -> None:
    """One line for the person at the terminal; a terminal that is gone, or a full disk behind it, does not end the node."""
    with contextlib.suppress(OSError):
        print(readable(line), flush=True)


def _flags(options: Mapping[str, Any]) -> dict[str, Any]:
    if options["port"] is None:
        return flags_of(options)
    if options["swarm__listen"]:
        raise ConfigError("--port and --listen exclude each other", fix="write the port into --listen")
    return {"swarm.listen": f"/ip4/0.0.0.0/tcp/{options['port']}", **flags_of(options)}
