"""`swarmd bootstrap`: the peers to join through."""

import click

from swarmd.cli.options import NodeOptions, data_dir_option, echo, json_option, pass_node, settings
from swarmd.errors import ConfigError
from swarmd.printable import columns, printable

SCHEMA = 1
# What each result means for whoever reads the list.
_MEANING = {
    "connected": "answers",
    "refused": "nobody listens there, or no route leads there",
    "timeout": "no answer: a router or a firewall may stand before it",
    "name_unknown": "there is no such name",
    "no_resolver": "this machine's resolver does not answer",
    "wrong_peer_id": "another node answers there: the list is stale, or somebody stands in between",
    "failed": "something answers there that is no peer",
}


@click.group(invoke_without_command=True)
@settings("--bootstrap")
@json_option
@pass_node
@click.pass_context
def bootstrap(context: click.Context, node: NodeOptions, as_json: bool) -> None:
    """The peers that this node joins through: those of the settings, and those of the list `bootstrap.txt`."""
    if context.invoked_subcommand is None:
        _show(node, as_json)


@bootstrap.command(name="list")
@settings("--bootstrap")
@json_option
@pass_node
def show(node: NodeOptions, as_json: bool) -> None:
    """Show them, with where each stands. The peers that a node remembers by itself are not among them."""
    _show(node, as_json)


@bootstrap.command()
@click.argument("address")
@data_dir_option
@pass_node
def add(node: NodeOptions, address: str) -> None:
    """Add one, /ip4|ip6|dns4/HOST/tcp/PORT/p2p/ID. A running node dials it within seconds."""
    from swarmd.files.datadir import claim
    from swarmd.swarm.addresses import parse_setting
    from swarmd.swarm.bootstrap_list import BootstrapList

    parsed = parse_setting(address, "swarmd bootstrap add")
    claim(node.place)
    new = BootstrapList(node.place.bootstrap).add(parsed)
    click.echo(f"{'added' if new else 'already there:'} {parsed.text}")


@bootstrap.command()
@click.argument("name", metavar="ADDRESS|ID")
@data_dir_option
@pass_node
def rm(node: NodeOptions, name: str) -> None:
    """Remove one from the list, by its address or peer id. A connection that stands is not closed."""
    from swarmd.files.datadir import claim
    from swarmd.swarm.bootstrap_list import BootstrapList

    claim(node.place)
    num = BootstrapList(node.place.bootstrap).remove(name)
    if not num:
        raise ConfigError(
            f"{printable(name, 120)} is not in {node.place.bootstrap}",
            fix="`swarmd bootstrap list` shows what is; those of the settings are removed there",
        )
    click.echo(f"removed {num}")


@bootstrap.command()
@click.argument("addresses", nargs=-1, metavar="[ADDRESS]...")
@settings("--bootstrap")
@json_option
@pass_node
def check(node: NodeOptions, addresses: tuple[str, ...], as_json: bool) -> None:
    """Dial each once, or those that are named, and say what came of it. Exits 1 where none answers."""
    import trio

    from swarmd.swarm.addresses import parse_setting
    from swarmd.swarm.check import check as check_all

    asked = [parse_setting(text, "swarmd bootstrap check") for text in addresses]
    targets = asked or [parse_setting(text, origin) for text, origin in _known(node)]
    if not targets:
        raise ConfigError("there is no bootstrap to check", fix="`swarmd bootstrap add ADDRESS`, or name one")
    found = trio.run(check_all, targets)
    rows = [("address", "result", "ms", "knows", "agent", "")] + [
        (
            printable(one.address),
            one.result,
            f"{one.seconds * 1000:.0f}",
            str(one.num_known) if one.result == "connected" else "-",
            printable(one.agent) or "-",
            _MEANING.get(one.result, ""),
        )
        for one in found
    ]
    document = {"schema": SCHEMA, "checked": [one._asdict() for one in found]}
    echo(document, as_json, lambda _: "\n".join(columns(rows)))
    if not any(one.result == "connected" for one in found):
        raise SystemExit(1)


def _show(node: NodeOptions, as_json: bool) -> None:
    known = _known(node)
    rows = [("address", "from"), *((printable(text), printable(origin)) for text, origin in known)]
    document = {
        "schema": SCHEMA,
        "bootstrap": [{"address": text, "from": origin} for text, origin in known],
    }
    shown = "\n".join(columns(rows)) if known else "no bootstrap; the local network is searched all the same"
    echo(document, as_json, lambda _: shown)


def _known(node: NodeOptions) -> list[tuple[str, str]]:
    """Each address with where it stands. Raises ConfigError where one is none."""
    from swarmd.files.datadir import inspect
    from swarmd.swarm.addresses import parse_setting
    from swarmd.swarm.bootstrap_list import BootstrapList

    inspect(node.place)
    place = node.place.bootstrap
    own = [parse_setting(text, "swarm.bootstrap").text for text in node.config().swarm.bootstrap]
    listed = [address.text for address in BootstrapList(place).read()]
    return [*((text, "settings") for text in own), *((text, str(place)) for text in listed)]
