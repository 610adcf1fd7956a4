"""`swarmd start`: run a node in the foreground."""

import contextlib

import click

from swarmd.cli.log import log_to_stderr
from swarmd.cli.options import NodeOptions, pass_node, settings
from swarmd.errors import ConfigError
from swarmd.printable import readable


@click.command()
@settings(
    "--model", "--device", "--swarm", "--mix", "--tasks", "--completions", "--bootstrap", "--listen", "--metrics-port",
    "--placement", "--plan", "--solo",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the default listen address.")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Stop after round N.")
@click.option("-v", "--verbose", is_flag=True, help="Say more on stderr, and leave no repeated line out.")
@pass_node
def start(node: NodeOptions, port: int | None, rounds: int | None, verbose: bool) -> None:
    """Run a node in the foreground: check, join, generate, share, learn."""
    listen_on(node, port)
    log_to_stderr(verbose=verbose)
    from swarmd.files.datadir import claim

    claim(node.place)
    config = node.config()

    import trio

    from swarmd.node.life import run_node

    async def run() -> None:
        await run_node(config, node.place, rounds_max=rounds, explicit=set(node.flags), say=say)

    trio.run(run)


def say(line: str) -> None:
    """One line for the person at the terminal; a terminal that is gone, or a full disk behind it, does not end the node."""
    with contextlib.suppress(OSError):
        print(readable(line), flush=True)


def listen_on(node: NodeOptions, port: int | None) -> None:
    """`--port` is `--listen` with the default address. Raises ConfigError when both are given."""
    if port is None:
        return
    if "swarm.listen" in node.own:
        raise ConfigError("--port and --listen exclude each other", fix="write the port into --listen")
    node.own["swarm.listen"] = f"/ip4/0.0.0.0/tcp/{port}"
