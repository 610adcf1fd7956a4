"""Which child processes a node has, where each runs, and with what it is started.

Placement: generation and update share one child (one model, one CUDA context, new weights for nothing) on a CPU or a single
GPU, and are two children on two GPUs, or when asked for. Two children hand weights over through a file in memory.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swarmd.clients.network import NetworkInfo
from swarmd.clients.policy import PolicyInfo
from swarmd.clients.scorer import ScorerInfo
from swarmd.config import Config
from swarmd.errors import ConfigError
from swarmd.files.datadir import DataDir
from swarmd.policy.model.folder import ResolvedModel
from swarmd.processes.supervise import ChildSpec
from swarmd.processes.values import typed
from swarmd.protocol.manifest import Manifest


@dataclass(frozen=True)
class Placement:
    """Devices of the two roles, and whether they share a process.

    `update_devices`: those that share the update, `update` the first. Each holds the whole model: one that does not fit a single
    card cannot be trained.
    """

    kind: str
    generation: str
    update: str
    update_devices: tuple[str, ...]


def place(wanted: str, device: str, num_gpus: int, update_devices: Sequence[str] = ()) -> Placement:
    """Decide where the roles run.

    Args:
        wanted: `auto`, `shared` or `split`.
        device: as `resolve_device` found it.
        num_gpus: GPUs of this machine; only `cuda` without a number spreads over them.
        update_devices: as configured; empty for all GPUs but the first.

    Raises:
        ConfigError: update devices are named that are not there, or where the update shares generation's process.
    """
    spread = device == "cuda" and num_gpus >= 2
    kind = wanted if wanted != "auto" else ("split" if spread else "shared")
    if kind != "split" or not spread:
        if update_devices:
            raise ConfigError(
                f"update.devices is {','.join(update_devices)}, and the update runs on {device} with generation",
                f"placement {kind}, {num_gpus} GPUs",
                "leave update.devices empty, or set policy.device cuda and policy.placement split on two or more GPUs",
            )
        return Placement(kind, device, device, (device,))
    there = tuple(f"cuda:{number}" for number in range(1, num_gpus))
    if len(set(update_devices)) < len(update_devices) or not set(update_devices) <= set(there):
        raise ConfigError(
            f"update.devices is {','.join(update_devices)}",
            f"cuda:0 generates, and the other GPUs are {', '.join(there)}",
            "name some of these, each once",
        )
    devices = tuple(update_devices) or there
    return Placement(kind, "cuda:0", devices[0], devices)


def count_gpus(root: Path = Path("/proc/driver/nvidia/gpus")) -> int:
    """NVIDIA GPUs that this process may use, without loading a CUDA library."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([part for part in visible.split(",") if part.strip() not in ("", "-1")])
    return len(list(root.iterdir())) if root.is_dir() else 0


def child_specs(
    config: Config,
    data_dir: DataDir,
    *,
    seed: bytes,
    manifest: Manifest,
    model_dir: Path,
    placement: Placement,
    weights_dir: Path | None = None,
    plan: Callable[[], str] = lambda: "auto",
    plans: Sequence[str] = (),
    plan_key: str = "",
    banned: Callable[[], list[bytes]] = list,
) -> dict[str, ChildSpec]:
    """The children by name: `scorer`, `generation`, with a split placement `update`, and unless solo `network`.

    `plan` is asked before each start for the memory plan in force, one of `plans`; `plan_key` is what checkpoints keep beside it.
    """
    env = {"VLLM_CACHE_ROOT": str(data_dir.cache), "VLLM_CONFIG_ROOT": str(data_dir.cache)}
    # NVML, which tells how much memory is free, counts cards by their place on the bus.
    env["CUDA_DEVICE_ORDER"] = os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    # By itself torch takes a folder of a known name in /tmp for it, whoever made that, and runs the code that lies there.
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        env["TORCHINDUCTOR_CACHE_DIR"] = str(data_dir.cache / "inductor")
    if config.policy.threads:
        env["OMP_NUM_THREADS"] = str(config.policy.threads)

    def policy(name: str, device: str, *roles: str, devices: Sequence[str] = ()) -> ChildSpec:
        args = {
            "roles": list(roles),
            "model_dir": str(model_dir),
            "device": device,
            "config": config.model_dump_json(),
            "checkpoints_dir": str(data_dir.checkpoints),
            "published_dir": str(weights_dir) if weights_dir else None,
            "devices": list(devices),
            "plans": list(plans),
            "plan_key": plan_key,
        }
        return ChildSpec(
            name,
            "swarmd.policy.service:PolicyService",
            lambda: {**args, "plan": plan()},
            data_dir.log(name),
            env=env,
        )

    specs = {"scorer": scorer_spec(config, manifest, data_dir.log("scorer"))}
    if placement.kind == "split":
        specs["generation"] = policy("generation", placement.generation, "generate")
        specs["update"] = policy("update", placement.update, "update", devices=placement.update_devices)
    else:
        specs["generation"] = policy("generation", placement.generation, "generate", "update")
    if not config.swarm.solo:
        specs["network"] = network_spec(config, data_dir, data_dir.log("network"), seed, manifest, banned)
    return specs


def scorer_spec(config: Config, manifest: Manifest, log_path: Path) -> ChildSpec:
    args = {"manifest": manifest.to_bytes(), "sandbox": config.questions.sandbox}
    return ChildSpec("scorer", "swarmd.questions.service:ScorerService", lambda: args, log_path)


def network_spec(
    config: Config,
    data_dir: DataDir,
    log_path: Path,
    seed: bytes,
    manifest: Manifest,
    banned: Callable[[], list[bytes]] = list,
) -> ChildSpec:
    """The network process of this identity in this swarm. `banned` is asked before each start for the keys of banned peers."""
    args: dict[str, object] = {
        "identity_seed": seed,
        "manifest": manifest.to_bytes(),
        "listen": config.swarm.listen,
        "announce": config.swarm.announce or None,
        "bootstrap": list(config.swarm.bootstrap),
        "peers_path": str(data_dir.peers),
        "local_discovery": config.swarm.local_discovery,
        "bootstrap_path": str(data_dir.bootstrap),
        "limits": config.limits.model_dump_json(),
    }
    return ChildSpec(
        "network",
        "swarmd.swarm.service:NetworkService",
        lambda: {**args, "banned": banned()},
        log_path,
    )


def weights_directory(
    data_dir: DataDir, model: ResolvedModel, peer_id: str, *, element_bytes: int = 4
) -> Path:
    """Where a split placement hands weights over: memory, where there is a memory file system with room for two versions.

    A killed node leaves its folder behind, with weights in memory that nobody else frees: the same node's next start does. It holds
    the lock of its data directory, and the identity in the name is nobody else's.
    """
    prefix = f"swarmd-weights-{peer_id}-"
    for left in (*Path("/dev/shm").glob(f"{prefix}*"), *data_dir.root.glob(f"{prefix}*")):
        shutil.rmtree(left, ignore_errors=True)
    shared, parent = Path("/dev/shm"), data_dir.root
    if shared.is_dir() and os.access(shared, os.W_OK):
        size_bytes = element_bytes * (model.num_parameters or 0)
        if shutil.disk_usage(shared).free > 2 * size_bytes + 2**24:
            parent = shared
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def summary(name: str, info: object) -> str:
    if name == "network":
        return ", ".join(typed(NetworkInfo, info).addresses)
    if name == "scorer":
        return f"sandbox: {typed(ScorerInfo, info).sandbox}"
    policy = typed(PolicyInfo, info)
    engine = f"{policy.engine} {policy.engine_version}".strip()
    return (
        f"{engine} · {policy.num_parameters / 1e6:.2f} M parameters · policy version {policy.policy_version}"
    )
