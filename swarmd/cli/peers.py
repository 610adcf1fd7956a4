"""`swarmd peers`: who is connected, and who is banned."""

import json
import math
import re
from typing import Any
from urllib.parse import urlencode

import click

from swarmd.cli.look import duration, peers_table
from swarmd.cli.options import data_dir_option, json_option
from swarmd.cli.printable import printable
from swarmd.control.client import ask
from swarmd.files.datadir import locate
from swarmd.trust.peer_key import key_of

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[float]):
    """A time such as `90s`, `10m`, `1h` or `2d`, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Refuses what is no time, and no time at all."""
        match = re.fullmatch(r"(\d{1,9})([smhd])", value)
        if not match or not int(match[1]):
            self.fail(f"{value!r} is not a time: a number with s, m, h or d behind it, for example 1h", param)
        return float(int(match[1]) * _UNITS_S[match[2]])


class PeerId(click.ParamType[str]):
    """A peer id, before anybody is asked about it."""

    name = "peer id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuses what cannot be one."""
        try:
            key_of(value)
        except ValueError as error:
            self.fail(f"{value!r:.80} is not a peer id: {error}; `swarmd peers` shows those connected", param)
        return str(value)


@click.group(invoke_without_command=True)
@data_dir_option
@json_option
@click.pass_context
def peers(context: click.Context, data_dir: str | None, as_json: bool) -> None:
    """Who is connected, and what came of their messages; and who is banned."""
    context.obj = data_dir
    if context.invoked_subcommand is None:
        document = ask(locate(data_dir).socket, "/v1/peers")
        click.echo(json.dumps(document, indent=2) if as_json else peers_table(document["peers"]))


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
@click.pass_obj
def ban(outer: str | None, peer_id: str, for_s: float | None, reason: str, data_dir: str | None) -> None:
    """Close the connection to a peer, take none again, and drop all it wrote or forwards. Survives restarts."""
    query = {"peer_id": peer_id, "reason": reason, **({} if for_s is None else {"for_s": f"{for_s:.0f}"})}
    ask(locate(data_dir or outer).socket, f"/v1/ban?{urlencode(query)}", method="POST")
    click.echo(f"banned {peer_id} {'until unbanned' if for_s is None else 'for ' + duration(for_s)}")


@peers.command()
@click.argument("peer_id", type=PeerId(), metavar="ID")
@data_dir_option
@click.pass_obj
def unban(outer: str | None, peer_id: str, data_dir: str | None) -> None:
    """Lift a ban, also one for points, and forget what led to it."""
    ask(locate(data_dir or outer).socket, f"/v1/unban?{urlencode({'peer_id': peer_id})}", method="POST")
    click.echo(f"no longer banned: {peer_id}")


@peers.command()
@data_dir_option
@json_option
@click.pass_obj
def bans(outer: str | None, data_dir: str | None, as_json: bool) -> None:
    """Who is banned, by whom, why, and for how much longer."""
    document = ask(locate(data_dir or outer).socket, "/v1/bans")
    click.echo(json.dumps(document, indent=2) if as_json else bans_table(document["bans"]))


def bans_table(rows: list[dict[str, Any]]) -> str:
    """The bans for people."""
    if not rows:
        return "nobody is banned"
    lines = [
        f"{printable(row['peer_id']):<52}  {row['by']:<8}  "
        f"{'until unbanned' if row['left_s'] is None else duration(math.ceil(row['left_s'])):<14}  {printable(row['reason'], 200)}"
        for row in rows
    ]
    head = f"{'peer id':<52}  {'by':<8}  {'left':<14}  reason"
    return "\n".join(line.rstrip() for line in (head, *lines))
