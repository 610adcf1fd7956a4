"""`swarmd contribute`: questions for a person or any other model, and their answers to the swarm."""

import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from swarmd.cli.options import NodeOptions, pass_node, settings
from swarmd.errors import ConfigError
from swarmd.printable import columns, printable

if TYPE_CHECKING:
    from swarmd.contribute.check import Checked, Review
    from swarmd.contribute.desk import Desk
    from swarmd.contribute.lines import Problem
    from swarmd.contribute.send import Delivery
    from swarmd.loops.ask import Question
    from swarmd.protocol.manifest import Manifest

PROBLEMS_SHOWN = 20
REWARDS_SHOWN = 8
QUESTION_WIDTH = 44


@click.command()
@click.argument("file", required=False)
@click.option(
    "--ask",
    "num",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Print N questions as JSON lines to fill in.",
)
@click.option("--tasks", metavar="A,B", help="With --ask: only questions of these datasets.")
@click.option("--check", is_flag=True, help="Check and score FILE; send nothing.")
@click.option("--all", "everything", is_flag=True, help="Send rollouts whose rewards are all equal, too.")
@click.option(
    "--policy",
    metavar="NAME",
    default="contributed",
    show_default=True,
    help="Who or what answered: told to everybody.",
)
@click.option(
    "--wait",
    "patience_s",
    type=click.FloatRange(1, 3600),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait for a peer.",
)
@settings("--swarm", "--bootstrap")
@pass_node
def contribute(
    node: NodeOptions,
    file: str | None,
    num: int | None,
    tasks: str | None,
    check: bool,
    everything: bool,
    policy: str,
    patience_s: float,
) -> None:
    """Join with answers written by hand or by any other model.

    With --ask, print questions of your own as JSON lines; fill in `completions`, several to each question. With FILE (- for
    standard input), check and score the answers as every receiver will, and share them: through the node that runs in the data
    directory, else by joining for as long as it takes. A running node also says which swarm that is.
    """
    if (file is None) == (num is None):
        raise click.UsageError("name a FILE of answers, or ask for questions with --ask N")
    if tasks and num is None:
        raise click.UsageError("--tasks goes with --ask")
    require_name(policy)

    import trio

    from swarmd.contribute.desk import open_desk
    from swarmd.files.datadir import claim

    claim(node.place)
    named = "swarm.name" in node.own
    with open_desk(node.config(), node.place, swarm_named=named, say=_note) as desk:
        if num is not None:
            names = [name.strip() for name in (tasks or "").split(",") if name.strip()]
            _print_questions(desk, trio.run(desk.ask, num, names))
            return
        assert file is not None
        rollouts = _checked(desk, file, everything=everything)
        if check or not rollouts:
            return

        async def send() -> "list[Delivery]":
            return await desk.send(rollouts, policy=policy, patience_s=patience_s)

        click.echo(sent_line(trio.run(send), desk))


def require_name(policy: str) -> None:
    """The name that travels in the header: printable ASCII, as long as the wire takes. Raises ConfigError."""
    from swarmd.protocol.types import POLICY_NAME_MAX

    if not 1 <= len(policy) <= POLICY_NAME_MAX or not all(" " <= c <= "~" for c in policy):
        raise ConfigError(
            f"--policy {policy!r:.80} cannot be sent",
            f"a name has 1 to {POLICY_NAME_MAX} printable ASCII characters",
            "choose another",
        )


def _note(line: str) -> None:
    click.echo(line, err=True)


# ---------------------------------------------------------------- asking


def _print_questions(desk: "Desk", questions: "Sequence[Question]") -> None:
    from swarmd.contribute.lines import blank

    for question in questions:
        name = desk.manifest.datasets[question.dataset].name
        click.echo(blank(name, question.counter, question.prompt))
    for line in instructions(desk.manifest):
        _note(line)


def instructions(manifest: "Manifest") -> list[str]:
    """What whoever fills the lines in has to know."""
    limits = manifest.limits
    lines = [
        f"Write {limits.completions_min} to {limits.completions_max} answers into each `completions`,"
        f" at most {limits.completion_bytes_max} bytes each.",
        "A question teaches only where answers earn different rewards: give right and wrong ones.",
    ]
    if manifest.answer_format == "tags":
        lines.append("What counts is the text between the last <answer> and </answer> of each.")
    return lines


# ---------------------------------------------------------------- checking


def _checked(desk: "Desk", name: str, *, everything: bool) -> "list[Checked]":
    """The rollouts of a file that are to be sent. Raises ConfigError where a line is faulty, or none is of use."""
    import trio

    from swarmd.contribute.check import Review
    from swarmd.contribute.lines import read_lines

    with _opened(name) as answers:
        lines, problems = read_lines(answers)
    result = Review() if problems else trio.run(desk.review, lines)
    if result.checked:
        click.echo("\n".join(table(desk.manifest, result.checked)))
    for line in summary(result):
        click.echo(line)
    if problems := problems + result.problems:
        raise _faulty(name, problems)
    rollouts = [checked for checked in result.checked if checked.informative or everything]
    if not rollouts and not result.sent:
        raise ConfigError(
            f"{printable(name)} holds nothing that anybody would learn from",
            f"{len(result.unanswered)} questions without answers, {len(result.checked)} with equal rewards",
            "give each question right and wrong answers",
        )
    return rollouts


def _opened(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read {printable(name)}", str(error.strerror), "check the name") from None


def _faulty(name: str, problems: "Sequence[Problem]") -> ConfigError:
    shown = [f"line {line}: {what}" for line, what in sorted(problems)[:PROBLEMS_SHOWN]]
    if len(problems) > PROBLEMS_SHOWN:
        shown.append(f"and {len(problems) - PROBLEMS_SHOWN} more")
    what = f"{len(problems)} line{'s' if len(problems) > 1 else ''} of {printable(name)} cannot be sent"
    return ConfigError(what, "\n  ".join(shown), "mend them; nothing was sent")


def table(manifest: "Manifest", checked: "Sequence[Checked]") -> list[str]:
    """One row a rollout: where it stands, what was asked, what each answer earns, and whether anybody learns from it."""
    rows = [("line", "dataset", "counter", "question", "rewards", "")]
    for one in checked:
        rows.append(
            (
                str(one.line.number),
                manifest.datasets[one.rollout.dataset].name,
                str(one.rollout.counter),
                _short(one.prompt),
                _rewards(one.rewards_G),
                _worth(one),
            )
        )
    return columns(rows)


def _short(prompt: str) -> str:
    """The beginning and the end: the beginning is often common to a dataset, and the end to a template."""
    text = printable(" ".join(prompt.split()), 10_000)
    if len(text) <= QUESTION_WIDTH:
        return text
    return f"{text[: QUESTION_WIDTH // 2 - 1]} … {text[-(QUESTION_WIDTH // 2 - 2) :]}"


def _rewards(rewards_G: Sequence[float]) -> str:
    if len(rewards_G) <= REWARDS_SHOWN:
        return " ".join(f"{reward:.2f}" for reward in rewards_G)
    return f"{min(rewards_G):.2f} to {max(rewards_G):.2f}, mean {statistics.fmean(rewards_G):.2f} of {len(rewards_G)}"


def _worth(one: "Checked") -> str:
    worth = "informative" if one.informative else "all equal: nobody learns from it"
    reasons = ", ".join(f"{num} {name.replace('_', ' ')}" for name, num in one.reasons.items())
    return f"{worth} ({reasons})" if reasons else worth


def summary(result: "Review") -> list[str]:
    """What became of the lines, for people; nothing about faulty ones."""
    worth = Counter(checked.informative for checked in result.checked)
    parts = [
        (worth[True], "informative"),
        (worth[False], "with equal rewards"),
        (len(result.unanswered), "not answered yet"),
        (len(result.sent), "sent before, skipped"),
    ]
    told = [f"{num} {what}" for num, what in parts if num]
    return [" · ".join(told)] if told else []


def sent_line(deliveries: "Sequence[Delivery]", desk: "Desk") -> str:
    num = sum(delivery.num_rollouts for delivery in deliveries)
    reach = deliveries[-1].reach
    return (
        f"sent {num} rollout{'s' if num > 1 else ''} as {desk.identity.peer_id}"
        f"{' through the running node' if desk.beside_node else ''}"
        f" (peers of the swarm: {reach.subscribers}, neighbours that pass them on: {reach.mesh_peers})"
    )
