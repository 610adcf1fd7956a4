"""`swarmd doctor`: what would happen, and why, without starting a node. One command a topic."""

import json
from pathlib import Path

import click

from swarmd.cli.options import config_options, data_dir_option, json_option
from swarmd.cli.run import parse_settings
from swarmd.files.datadir import inspect, locate


@click.group()
def doctor() -> None:
    """Look into what a node would do here, without starting one."""


@doctor.command()
@click.option(
    "--model", metavar="NAME", help="tiny, Qwen2.5-0.5B, a hub id, or a folder. [default: as configured]"
)
@click.option("--device", metavar="NAME", help="auto, cpu, cuda, cuda:N or mps. [default: as configured]")
@click.option("--plan", metavar="NAME", help="What --plan would mean. [default: auto]")
@data_dir_option
@config_options
@json_option
def memory(
    model: str | None,
    device: str | None,
    plan: str | None,
    data_dir: str | None,
    config_path: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """What a model needs, what is free, every plan, and the one a start would take; nothing is downloaded."""
    from swarmd.config import load_config
    from swarmd.errors import ModelUnavailable
    from swarmd.node.children import count_gpus, place
    from swarmd.node.memory import memory_choice
    from swarmd.policy.model.resolve import resolve_device, resolve_model
    from swarmd.policy.plans.report import document, screen

    given = {"policy.model": model, "policy.device": device, "policy.plan": plan}
    flags = parse_settings(settings) | {key: value for key, value in given.items() if value is not None}
    directory = locate(data_dir)
    inspect(directory)
    path = Path(config_path) if config_path else None
    config = load_config(flags=flags, path=path, data_dir=directory.root)
    found = resolve_model(config.policy.model)
    device = resolve_device(config.policy.device, config.policy.model)
    placement = place(config.policy.placement, device, count_gpus(), config.update.devices)
    choice = memory_choice(config, found, placement)
    if choice is None:
        raise ModelUnavailable(
            f"the memory that {found.name} needs cannot be computed",
            "its config.json names its sizes in a way that is not known here",
            "a node starts with it all the same, under plan resident",
        )
    shown = document if as_json else screen
    told = shown(choice, found.name)
    click.echo(json.dumps(told, indent=2) if as_json else told)
    choice.required()
