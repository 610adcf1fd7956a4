"""`swarmd export`, `swarmd config`: what can be done without a running node."""

import json
from pathlib import Path

import click

from swarmd.cli.options import config_options, data_dir_option
from swarmd.cli.run import parse_settings
from swarmd.files.datadir import inspect, locate


@click.command()
@click.argument("directory")
@data_dir_option
@config_options
@click.option("--model", metavar="NAME", help="The model the node was started with.")
def export(
    directory: str,
    data_dir: str | None,
    config_path: str | None,
    settings: tuple[str, ...],
    model: str | None,
) -> None:
    """Write the newest checkpoint as a Hugging Face folder."""
    from swarmd.config import load_config
    from swarmd.policy.model.resolve import resolve_model
    from swarmd.policy.state.export import export_checkpoint

    place = locate(data_dir)
    inspect(place)
    flags = parse_settings(settings) | ({"policy.model": model} if model else {})
    config = load_config(flags=flags, path=Path(config_path) if config_path else None, data_dir=place.root)
    written = export_checkpoint(place.checkpoints, resolve_model(config.policy.model), Path(directory))
    click.echo(f"wrote {written} to {directory}; load it with transformers or vLLM")


@click.group()
def config() -> None:
    """Settings: which are in force, and what they mean."""


@config.command("show")
@data_dir_option
@config_options
def show(data_dir: str | None, config_path: str | None, settings: tuple[str, ...]) -> None:
    """The settings in force, as JSON."""
    from swarmd.config import load_config

    place = locate(data_dir)
    inspect(place)
    path = Path(config_path) if config_path else None
    loaded = load_config(flags=parse_settings(settings), path=path, data_dir=place.root)
    click.echo(json.dumps(loaded.model_dump(), indent=2))


@config.command("reference")
def show_reference() -> None:
    """The manual of all settings, in Markdown."""
    from swarmd.config import reference

    click.echo(reference(), nl=False)
