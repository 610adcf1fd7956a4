"""The optimizers that an update can step with, one row each, and the memory plans in order. Data only: no torch, no imports.

A new optimizer is a file in `policy/update/optimizers/` and a row here; settings, plans, metrics and messages follow.
"""

from typing import NamedTuple


class OptimizerKind(NamedTuple):
    """One optimizer.

    Attributes:
        name: in `Execution`, and in what people read.
        plan: the memory plan that takes this optimizer, as the operator writes it.
        words: what the plan gives up, for `swarmd doctor memory`.
        builder: `module:function`; the function takes the model, the update's settings and the `Execution`. Only the
            learner's process imports it.
        package: what must be installed.
        moment_bytes: of Adam's moments on the device, for each trained parameter.
        embedding_moment_bytes: the same for parameters of the input embedding.
        on_host: masters, gradients and moments are in the host's memory.
        adapters: only adapters are trained.
        saved_mark: the kind of tensor that only this optimizer saves; empty for full moments.
        not_on: kinds of device where it does not work, or saves nothing.
    """

    name: str
    plan: str
    words: str
    builder: str
    package: str = "torch"
    moment_bytes: float = 8
    embedding_moment_bytes: float = 8
    on_host: bool = False
    adapters: bool = False
    saved_mark: str = ""
    not_on: tuple[str, ...] = ()


# From the one that needs most memory to the one that needs least.
OPTIMIZERS = (
    OptimizerKind("adamw", "resident", "full moments", "swarmd.policy.update.optimizers.adam:build"),
    OptimizerKind(
        "adam-8bit",
        "adam-8bit",
        "moments of 8 bits",
        "swarmd.policy.update.optimizers.adam_8bit:build",
        package="bitsandbytes",
        # two bytes, and two float32 scales for each block of 256 values
        moment_bytes=2 + 8 / 256,
        saved_mark="codebook",
        not_on=("mps",),  # bitsandbytes has kernels for CUDA and for x86 and ARM processors
    ),
    OptimizerKind(
        "host",
        "host-optimizer",
        "masters and moments in the host's memory",
        "swarmd.policy.update.optimizers.host:build",
        moment_bytes=0,
        embedding_moment_bytes=0,
        on_host=True,
        not_on=("cpu",),  # there the host is the device
    ),
    OptimizerKind(
        "lora",
        "lora",
        "only adapters are trained",
        "swarmd.policy.update.optimizers.lora:build",
        package="peft",
        adapters=True,
        saved_mark="adapter",
    ),
)
OPTIMIZER = {kind.name: kind for kind in OPTIMIZERS}
# From the fastest to the one that needs least memory.
PLAN_NAMES = (
    OPTIMIZERS[0].plan,
    "time-share",
    "small-batches",
    "checkpointing",
    *(kind.plan for kind in OPTIMIZERS[1:]),
)
