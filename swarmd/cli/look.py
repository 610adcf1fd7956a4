"""`swarmd status`, `id`, `stop`, `healthcheck`: what a running node says of itself."""

import math
import sys
from typing import Any

import click

from swarmd.cli.options import NodeOptions, data_dir_option, echo, json_option, pass_node
from swarmd.printable import columns, printable, readable

BARS = "▁▂▃▄▅▆▇█"


@click.command()
@data_dir_option
@json_option
@pass_node
def status(node: NodeOptions, as_json: bool) -> None:
    """One screen: model, round, reward, buffer, peers, health."""
    echo(node.ask("/v1/status"), as_json, status_screen)


@click.command("id")
@data_dir_option
@json_option
@pass_node
def show_id(node: NodeOptions, as_json: bool) -> None:
    """The node's peer id and the addresses to give to others."""
    echo(node.ask("/v1/id"), as_json, id_screen)


@click.command()
@click.option("--evaluate", is_flag=True, help="Measure the policy on the held-out questions first.")
@data_dir_option
@pass_node
def stop(node: NodeOptions, evaluate: bool) -> None:
    """Stop the node after the round under way."""
    node.ask(f"/v1/stop?evaluate={int(evaluate)}", method="POST")
    click.echo("stopping after this round")


@click.command()
@data_dir_option
@pass_node
def healthcheck(node: NodeOptions) -> None:
    """For scripts and containers: exit 0 healthy, 1 not, 3 not running."""
    problems = node.ask("/v1/status")["health"]
    bad = [problem for problem in problems if problem["unhealthy"]]
    for problem in bad or problems:
        click.echo(printable(f"{problem['code']}: {problem['text']} {problem['fix']}", 300))
    click.echo("not healthy" if bad else "healthy")
    sys.exit(1 if bad else 0)


def id_screen(document: dict[str, Any]) -> str:
    rows = [(name, document[name.replace(" ", "_")]) for name in ("peer id", "public key", "swarm")]
    rows += [("address", address) for address in document["addresses"]]
    return "\n".join(f"{name:<10}  {printable(value, 300)}" for name, value in rows)


def status_screen(document: dict[str, Any]) -> str:
    model, reward, buffer = document["model"], document["reward"], document["buffer"]
    mix, rollouts, network = document["mix"], document["rollouts"], document["network"]
    evaluation = document["evaluation"]
    restarts = sum(worker["restarts"] for worker in document["workers"].values())
    lines = [
        f"swarmd {document['swarmd']} · running {duration(document['uptime_s'])} · pid {document['pid']}"
        f" · round {document['round']} · {document['phase']}",
        f"Model    {model['name']} · {model['num_parameters'] / 1e6:.2f} M parameters · {model['device']},"
        f" {model['placement']} · {model['engine'] or 'starting'} · policy version {model['policy_version']}"
        + (f" · plan {model['plan']}" if model["plan"] else ""),
        f"Reward   own {number(reward['own'])} {sparkline(reward['history'])}   external {number(reward['external'])}"
        f"   (mean of {reward['over_rounds']} rounds)",
    ]
    if evaluation:
        lines.append(
            f"Held-out {number(evaluation['mean'])} ± {number(evaluation['standard_error'])} at round {evaluation['round']}"
        )
    lines += [
        f"Mix      {mix['num_local']} own + {mix['num_external']} external wanted · {number(mix['got_external'], 1)} external got",
        f"Rollouts {rollouts['shared']} shared · {rollouts['received']} received"
        f" · {sum(rollouts['used_by_author'].values())} used of {len(rollouts['used_by_author'])} peers",
        f"Buffer   {buffer.get('num_rollouts', 0)} rollouts, {buffer.get('num_informative', 0)} informative,"
        f" of {len(buffer.get('by_author', {}))} authors · {buffer.get('size_bytes', 0) / 2**20:.1f} MiB",
        f"Swarm    {document['swarm']['name']} · "
        + (
            "solo"
            if document["swarm"]["solo"]
            else f"{network['num_peers']} peers{reachable(network['stats'])}"
        )
        + f" · scorer {document['sandbox']} · {restarts} process restarts",
    ]
    if line := trust_line(document["trust"]):
        lines.append(line)
    for warning in document["health"]:
        lines.append(
            f"Health   ! {warning['code']}  {printable(warning['text'] + ' ' + warning['fix'], 300)}"
        )
    if not document["health"]:
        lines.append("Health   ok")
    return readable("\n".join(lines))


def reachable(stats: dict[str, Any]) -> str:
    """Whether strangers can connect to the node, where somebody tried."""
    outside = stats.get("outside", {})
    answers = {True: "can be reached from outside", False: "cannot be reached from outside"}
    answer = answers.get(outside.get("reachable"))
    return f" · {answer} at {printable(', '.join(outside['hosts']))}" if answer else ""


def trust_line(trust: dict[str, Any]) -> str:
    """One line when somebody is banned or something was dropped for a quota or a ban; else nothing."""
    dropped = trust.get("dropped", {})
    if not trust.get("num_banned") and not dropped:
        return ""
    unscored = ", ".join(f"{num} for {reason}" for reason, num in sorted(dropped.items())) or "nothing"
    return (
        f"Trust    {trust.get('num_proven', 0)} of {trust.get('num_authors', 0)} authors proven"
        f" · {trust.get('num_banned', 0)} banned · dropped unscored: {unscored}"
    )


def peers_table(rows: list[dict[str, Any]]) -> str:
    """The peers document for people; every string of a peer is made harmless."""
    if not rows:
        return "no peers"
    head = (
        "peer id", "dir", "rtt ms", "standing", "accepted", "ignored", "rejected", "held", "used", "agent", "address",
    )  # fmt: skip
    table = [head] + [
        (
            printable(row["peer_id"]),
            printable(str(row["direction"]), 3),
            "-" if row["rtt_s"] is None else f"{row['rtt_s'] * 1000:.0f}",
            printable(row["standing"]),
            *(str(row[key]) for key in ("accepted", "ignored", "rejected", "rollouts_held", "rollouts_used")),
            printable(row["agent"] or "-"),
            printable(row["address"] or "-"),
        )
        for row in rows
    ]
    return "\n".join(columns(table))


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where there is none yet."""
    return "-" if value is None else f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, the two largest of them."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {rest} s" if minutes else f"{rest} s"


def sparkline(values: list[float], width: int = 12) -> str:
    """The course of a series in one short word."""
    if not values:
        return ""
    size = math.ceil(len(values) / width)
    means = [sum(part) / len(part) for part in (values[i : i + size] for i in range(0, len(values), size))]
    top = max(means) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int(m / top * len(BARS)))] for m in means)
