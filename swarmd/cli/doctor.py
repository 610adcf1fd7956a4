"""`swarmd doctor`: what would happen, and why, without starting a node. One command a topic."""

import json

import click

from swarmd.cli.options import NodeOptions, json_option, pass_node, settings
from swarmd.files.datadir import inspect


@click.group()
def doctor() -> None:
    """Look into what a node would do here, without starting one."""


@doctor.command()
@settings("--model", "--device", "--plan")
@json_option
@pass_node
def memory(node: NodeOptions, as_json: bool) -> None:
    """What a model needs, what is free, every plan, and the one a start would take; nothing is downloaded."""
    from swarmd.errors import ModelUnavailable
    from swarmd.node.children import count_gpus, place
    from swarmd.node.memory_plan import memory_choice
    from swarmd.policy.model.resolve import resolve_device, resolve_model
    from swarmd.policy.plans.words import document, required, screen

    inspect(node.place)
    config = node.config()
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
    click.echo(json.dumps(document(choice, found.name), indent=2) if as_json else screen(choice, found.name))
    required(choice)
