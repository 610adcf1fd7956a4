"""`swarmd peers`: who is connected, and who is banned."""

import math
import re
from typing import Any
from urllib.parse import urlencode

import click

from swarmd.cli.look import duration, peers_table
from swarmd.cli.options import NodeOptions, data_dir_option, echo, json_option, pass_node
from swarmd.printable import columns, printable
from swarmd.trust.peer_key import key_of

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[float]):
    """A time such as `90s`, `10m`, `1h` or `2d`, in seconds."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Refuses what is no time, and no time at all."""
        match = re.fullmatch(r"(\d{1,9})([smhd])", value)
        if not match or not int(match[1]):
            self.fail(f"{value!r} is not a time: a number with s, m, h or d behind it, for example 1h", param)
        return float(int(match[1]) * _UNITS_S[match[2]])


class PeerId(click.ParamType[str]):
    """A peer id, before anybody is asked about it."""

    name = "peer id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuses what cannot be one."""
        try:
            key_of(value)
        except ValueError as error:
            self.fail(f"{value!r:.80} is not a peer id: {error}; `swarmd peers` shows those connected", param)
        return value


@click.group(invoke_without_command=True)
@data_dir_option
@json_option
@pass_node
@click.pass_context
def peers(context: click.Context, node: NodeOptions, as_json: bool) -> None:
    """Who is connected, and what came of their messages; and who is banned."""
    if context.invoked_subcommand is None:
        echo(node.ask("/v1/peers"), as_json, lambda document: peers_table(document["peers"]))


@peers.command()
@click.argument("peer_id", type=PeerId(), metavar="ID")
@click.option(
    "--for",
    "for_s",
    type=Duration(),
    metavar="TIME",
    help="How long, for example 1h. [default: until unbanned]",
)
@click.option("--reason", default="", help="A note for `swarmd peers bans`.")
@data_dir_option
@pass_node
def ban(node: NodeOptions, peer_id: str, for_s: float | None, reason: str) -> None:
    """Close the connection to a peer, take none again, and drop all it wrote or forwards. Survives restarts."""
    query = {"peer_id": peer_id, "reason": reason, **({} if for_s is None else {"for_s": f"{for_s:.0f}"})}
    node.ask(f"/v1/ban?{urlencode(query)}", method="POST")
    click.echo(f"banned {peer_id} {'until unbanned' if for_s is None else 'for ' + duration(for_s)}")


@peers.command()
@click.argument("peer_id", type=PeerId(), metavar="ID")
@data_dir_option
@pass_node
def unban(node: NodeOptions, peer_id: str) -> None:
    """Lift a ban, also one for points, and forget what led to it."""
    node.ask(f"/v1/unban?{urlencode({'peer_id': peer_id})}", method="POST")
    click.echo(f"no longer banned: {peer_id}")


@peers.command()
@data_dir_option
@json_option
@pass_node
def bans(node: NodeOptions, as_json: bool) -> None:
    """Who is banned, by whom, why, and for how much longer."""
    echo(node.ask("/v1/bans"), as_json, lambda document: bans_table(document["bans"]))


def bans_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "nobody is banned"
    lines = [
        (
            printable(row["peer_id"]),
            row["by"],
            "until unbanned" if row["left_s"] is None else duration(math.ceil(row["left_s"])),
            printable(row["reason"], 200),
        )
        for row in rows
    ]
    return "\n".join(columns([("peer id", "by", "left", "reason"), *lines]))
