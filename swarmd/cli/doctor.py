"""`swarmd doctor`: what would happen, and why, without starting a node. One command a topic."""

import json
from typing import Any

import click

from swarmd.cli.options import config_options, data_dir_option, flags_of, json_option, load, setting
from swarmd.files.datadir import inspect, locate


@click.group()
def doctor() -> None:
    """Look into what a node would do here, without starting one."""


@doctor.command()
@setting(
    "--model",
    "policy.model",
    metavar="NAME",
    help="tiny, Qwen2.5-0.5B, a hub id, or a folder. [default: as configured]",
)
@setting(
    "--device",
    "policy.device",
    metavar="NAME",
    help="auto, cpu, cuda, cuda:N or mps. [default: as configured]",
)
@setting("--plan", "policy.plan", metavar="NAME", help="What --plan would mean. [default: auto]")
@data_dir_option
@config_options
@json_option
def memory(as_json: bool, **options: Any) -> None:
    """What a model needs, what is free, every plan, and the one a start would take; nothing is downloaded."""
    from swarmd.errors import ModelUnavailable
    from swarmd.node.children import count_gpus, place
    from swarmd.node.memory_plan import memory_choice
    from swarmd.policy.model.resolve import resolve_device, resolve_model
    from swarmd.policy.plans.words import document, required, screen

    directory = locate(options["data_dir"])
    inspect(directory)
    config = load(flags_of(options), options["config_path"], directory)
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
    required(choice)
