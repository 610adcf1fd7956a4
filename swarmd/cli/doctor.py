"""`swarmd doctor`: what would happen, and why, without starting a node. One command a topic."""

import json

import click

from swarmd.cli.options import NodeOptions, json_option, pass_node, settings
from swarmd.files.datadir import inspect


@click.group()
def doctor() -> None:
    """Look into what a node would do here, without starting one."""


@doctor.command()
@settings("--device")
@json_option
@pass_node
def gpu(node: NodeOptions, as_json: bool) -> None:
    """Whether a model would run on this machine's GPU: driver, card, memory, packages, and what to mend."""
    from swarmd.errors import NoDevice
    from swarmd.node.memory_plan import say_toolchain
    from swarmd.policy.model import devices, packages
    from swarmd.policy.plans.room import look

    config, machine, device, refusal = node.config(), devices.look(), "", None
    compiler = list[str]()
    try:
        device = devices.resolve_device(config.policy.device, "", machine=machine)
    except NoDevice as error:
        refusal = error
    room = look(device) if device.startswith("cuda") else None
    lost = packages.missing() if room else {}
    say_toolchain(config, device, compiler.append)
    if as_json:
        free = room.free_bytes if room else None
        document = {
            **vars(machine),
            "schema": 1,
            "device": device,
            "trouble": refusal.why if refusal else "",
            "free_bytes": free,
            "missing": lost,
            "compiler": compiler,
        }
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(f"driver {machine.driver or 'none'}, torch for CUDA {machine.torch_cuda or 'none'}")
        if machine.capability:
            click.echo(f"compute capability {machine.capability[0]}.{machine.capability[1]}")
        if room:
            told = "unknown: " + room.why if room.free_bytes is None else f"{room.free_bytes / 2**30:.1f} GiB"
            click.echo(f"free memory {told}")
        for name, loss in lost.items():
            click.echo(f"! without {name}: {loss}; {packages.INSTALL}")
        for line in compiler:
            click.echo(line)
        if device:
            click.echo(f"-> device {device}")
    if refusal:
        raise refusal


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
