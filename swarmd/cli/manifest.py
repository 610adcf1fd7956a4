"""`swarmd manifest`: make a manifest of one's own, and look at one, without starting a node."""

from pathlib import Path

import click


@click.group()
def manifest() -> None:
    """The agreement that makes a swarm: check it, and seal one of your own."""


@manifest.command()
@click.argument("file")
def seal(file: str) -> None:
    """Write the golden digest of each dataset into a manifest's FILE.

    A digest stands for a dataset's questions and answers. Every node compares its own with them before it joins. Seal anew after
    each change of a dataset or its parameters, then give all nodes the same file.
    """
    from swarmd.atomic import write_atomically
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
    service = ScorerService(lambda name, data: None, manifest=loaded.to_bytes(), sandbox="best-effort")
    try:
        started = service.start()
    finally:
        service.close()
    click.echo(f"topic    {loaded.topic}\ndigest   {loaded.digest.hex()}\nsandbox  {started['sandbox']}")
    for number, spec in enumerate(loaded.datasets):
        params = ", ".join(f"{key}={value!r}" for key, value in sorted(spec.params.items()))
        click.echo(f"{number:7}  {spec.name}({params}) reward {spec.reward}, weight {spec.weight:g}: golden")
