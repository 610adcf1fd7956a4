"""`swarmd manifest`: make a manifest of one's own, and look at one, without starting a node."""

import sys
from pathlib import Path

import click


@click.group()
def manifest() -> None:
    """The agreement that makes a swarm: check it, see what it pays for nothing, and seal one of your own."""


@manifest.command()
@click.argument("file")
def seal(file: str) -> None:
    """Write the golden digest of each dataset into a manifest's FILE.

    A digest stands for a dataset's questions and answers. Every node compares its own with them before it joins. Seal anew after
    each change of a dataset or its parameters, then give all nodes the same file.
    """
    from swarmd.files.atomic import write_atomically
    from swarmd.protocol.manifest import Manifest, read_manifest_file
    from swarmd.questions.seal import goldens_of, seal_toml

    path = Path(file)
    data = read_manifest_file(path)
    before = Manifest.from_toml(data, file)
    sealed = seal_toml(data, goldens_of(before), file)
    if sealed != data:
        write_atomically(path, sealed)
    after = Manifest.from_toml(sealed, file)
    done = "was sealed already" if after == before else f"sealed {len(after.datasets)} datasets"
    click.echo(f"{file}: {done}\n  topic {after.topic}")


@manifest.command()
@click.argument("name_or_file")
def check(name_or_file: str) -> None:
    """Whether a node of this machine could take part in a swarm: NAME of an embedded manifest, or its FILE."""
    from swarmd.protocol.manifest import load_manifest
    from swarmd.questions.service import ScorerService

    loaded = load_manifest(name_or_file)
    service = ScorerService(lambda event: None, manifest=loaded.to_bytes(), sandbox="best-effort")
    try:
        started = service.start()
    finally:
        service.close()
    click.echo(f"topic    {loaded.topic}\ndigest   {loaded.digest.hex()}\nsandbox  {started.sandbox}")
    for number, spec in enumerate(loaded.datasets):
        params = ", ".join(f"{key}={value!r}" for key, value in sorted(spec.params.items()))
        click.echo(f"{number:7}  {spec.name}({params}) reward {spec.reward}, weight {spec.weight:g}: golden")


@manifest.command()
@click.argument("name_or_file")
@click.option(
    "--questions",
    "num_questions",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Questions in each of the two samples of a dataset.",
)
@click.option(
    "--bound",
    type=click.FloatRange(0, 1),
    default=0.15,
    show_default=True,
    help="The highest mean reward that may be had for nothing.",
)
@click.option("--dataset", "only", multiple=True, help="Only the datasets of this name; may be repeated.")
def cheap(name_or_file: str, num_questions: int, bound: float, only: tuple[str, ...]) -> None:
    """What each dataset pays for answers that solve nothing: NAME of an embedded manifest, or its FILE.

    Four kinds of answers are tried: a constant, a constant for each kind of question, a copy of a piece of the question, and three
    tiny programs. The best of each kind is chosen on one sample of questions and measured on another. The exit code is 1 when one
    earns more than the bound.
    """
    from swarmd.protocol.manifest import load_manifest
    from swarmd.questions.cheap import HEAD, cheap_rows, line_of

    loaded = load_manifest(name_or_file)
    numbers = [n for n, spec in enumerate(loaded.datasets) if not only or spec.name in only]
    if not numbers:
        raise click.BadParameter(f"{loaded.name} has no dataset {', '.join(only)}", param_hint="--dataset")
    click.echo(HEAD)
    over = []
    for row in cheap_rows(loaded, num_questions, numbers):
        click.echo(line_of(row))
        if row.highest > bound:
            over.append(row.dataset)
    if over:
        click.echo(f"\nabove {bound:g}: {', '.join(over)}")
        sys.exit(1)
