"""A node's memory plan, out of its settings and before anything is downloaded or spawned; imports no torch."""

import hashlib
import importlib.util

from swarmd.config import Config
from swarmd.node.children import Placement, policy_settings
from swarmd.policy.model.folder import ResolvedModel
from swarmd.policy.options import PolicyOptions
from swarmd.policy.plans.choice import Choice, choose, price
from swarmd.policy.plans.ladder import ladder
from swarmd.policy.plans.needs import Where, Work
from swarmd.policy.plans.room import Room, look
from swarmd.policy.plans.shape import read_shape


def engine_of(config: Config, device: str) -> str:
    """Which engine will generate on `device`, as far as can be told without loading it."""
    wanted = config.policy.engine
    if wanted != "auto":
        return wanted
    takes = device in ("cuda", "cuda:0") and importlib.util.find_spec("vllm") is not None
    return "vllm" if takes else "transformers"


def work_of(config: Config, model: ResolvedModel) -> Work:
    """What the settings ask of a device."""
    options = PolicyOptions.from_settings(policy_settings(config, model))
    experience, update = config.experience, options.update
    own = experience.num_local * experience.completions
    return Work(
        tokens_max=options.tokens_max,
        num_local=experience.num_local,
        num_external=config.num_external_max,
        completions=experience.completions,
        generated_at_once=max(own, config.evaluate.num_questions * config.evaluate.completions),
        micro_batch_tokens=update.micro_batch_tokens,
        head_tile=update.head_tile,
        optimizer=update.optimizer,
        lora_rank=update.lora_rank,
        generate_batch_tokens=options.batch_tokens_max,
    )


def memory_choice(
    config: Config,
    model: ResolvedModel,
    placement: Placement,
    *,
    last: str | None = None,
    room: Room | None = None,
) -> Choice | None:
    """The memory plan of a node, before anything is downloaded; None where the model does not say how large it is.

    With two devices it is the update's: generation there has one plan only, and vLLM or torch says when that does not fit.

    Args:
        last: the plan that an earlier run of the same work had stepped down to.
        room: for tests; looked at when None.
    """
    shape = read_shape(model)
    if shape is None:
        return None
    device = placement.update
    alone = placement.generation != device
    engine = engine_of(config, placement.generation)
    where = Where(device, engine, generates=not alone, apart=placement.kind == "split" and not alone)
    can_sleep = engine == "vllm" and device != "cpu" and placement.kind == "shared"
    work = work_of(config, model)
    plans = ladder(device, can_sleep=can_sleep, optimizer=work.optimizer, optimizers=optimizers_on(device))
    priced = price(shape, work, where, plans)
    return choose(device, room or look(device), priced, config.policy.plan, last, shape.num_parameters)


def optimizers_on(device: str) -> list[str]:
    """The kinds of optimizer that this installation has for `device`."""
    needed = {"adamw": "torch", "adam-8bit": "bitsandbytes", "host": "torch", "lora": "peft"}
    found = [kind for kind, package in needed.items() if importlib.util.find_spec(package) is not None]
    # bitsandbytes has kernels for CUDA and for x86 and ARM processors, none for Apple's GPU
    return [kind for kind in found if not (kind == "adam-8bit" and device == "mps")]


def plan_key(choice: Choice, work: Work) -> str:
    """What has to be the same for a plan that an earlier run stepped down to: the plan it began with, and its work."""
    digest = hashlib.sha256(repr(work).encode()).hexdigest()[:16]
    return f"{choice.chosen.plan.name if choice.chosen else 'none'} {digest}"
