"""`swarmd export`, `swarmd config`: what can be done without a running node."""

import json
from pathlib import Path
from typing import Any

import click

from swarmd.cli.options import config_options, data_dir_option, flags_of, load, setting
from swarmd.files.datadir import inspect, locate


@click.command()
@click.argument("directory")
@data_dir_option
@config_options
@setting("--model", "policy.model", metavar="NAME", help="The model the node was started with.")
def export(directory: str, **options: Any) -> None:
    """Write the newest checkpoint as a Hugging Face folder."""
    from swarmd.policy.model.resolve import resolve_model
    from swarmd.policy.state.export import export_checkpoint

    place = locate(options["data_dir"])
    inspect(place)
    config = load(flags_of(options), options["config_path"], place)
    written = export_checkpoint(place.checkpoints, resolve_model(config.policy.model), Path(directory))
    click.echo(f"wrote {written} to {directory}; load it with transformers or vLLM")


@click.group()
def config() -> None:
    """Settings: which are in force, and what they mean."""


@config.command("show")
@data_dir_option
@config_options
def show(**options: Any) -> None:
    """The settings in force, as JSON."""
    place = locate(options["data_dir"])
    inspect(place)
    loaded = load(flags_of(options), options["config_path"], place)
    click.echo(json.dumps(loaded.model_dump(), indent=2))


@config.command("reference")
def show_reference() -> None:
    """The manual of all settings, in Markdown."""
    from swarmd.config import reference

    click.echo(reference(), nl=False)
