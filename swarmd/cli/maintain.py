"""`swarmd export`, `swarmd config`: what can be done without a running node."""

import json
from pathlib import Path

import click

from swarmd.cli.options import NodeOptions, pass_node, settings
from swarmd.files.datadir import inspect


@click.command()
@click.argument("directory")
@settings("--model")
@pass_node
def export(node: NodeOptions, directory: str) -> None:
    """Write the newest checkpoint as a Hugging Face folder. Name the model that the node was started with."""
    from swarmd.policy.model.resolve import resolve_model
    from swarmd.policy.state.export import export_checkpoint

    inspect(node.place)
    model = resolve_model(node.config().policy.model)
    written = export_checkpoint(node.place.checkpoints, model, Path(directory))
    click.echo(f"wrote {written} to {directory}; load it with transformers or vLLM")


@click.group()
def config() -> None:
    """Settings: which are in force, and what they mean."""


@config.command("show")
@settings()
@pass_node
def show(node: NodeOptions) -> None:
    """The settings in force, as JSON."""
    inspect(node.place)
    click.echo(json.dumps(node.config().model_dump(), indent=2))


@config.command("reference")
def show_reference() -> None:
    """The manual of all settings, in Markdown."""
    from swarmd.config import reference

    click.echo(reference(), nl=False)
