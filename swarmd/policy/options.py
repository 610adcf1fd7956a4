"""The settings the policy process reads, out of the daemon's configuration; imports no torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from swarmd.config import PolicySettings, UpdateSection
from swarmd.errors import ConfigError
from swarmd.experience.advantages import EPS, Scale
from swarmd.policy.update.settings import UpdateSettings

# What no section of the configuration has: the daemon sets it.
_OTHER_KEYS = ("checkpoints_keep", "plans", "plan_key", "engine_eager", "engine_sleeps")


@dataclass(frozen=True)
class PolicyOptions:
    """What generation, tokenising and checkpoints need; the update's own numbers are in `update`.

    Attributes:
        model: the model's name as configured; checkpoints carry it. Empty: the folder's name.
        tokens_max: longest completion; other people's text is cut there.
        engine: `auto`, `vllm` or `transformers`; see `generation.choose`.
        engine_eager, engine_sleeps: what the memory plan says: vLLM without CUDA graphs; able to sleep.
        batch_tokens_max: most prompt and completion tokens that an engine holds at once.
        advantage_scale, advantage_eps: see `experience.advantages`.
        external_baseline_shift: its `baseline_shift`, for external rollouts.
        floor_follows: whether `update.external_logp_min` is found from own completions as they come; see `update.floor`.
        checkpoints_keep: how many are kept.
        plan, plans: the memory plan to begin with, and all that this device has; see `plans.ladder`.
        plan_key: what the daemon wants to find beside the plan in a checkpoint; empty: neither is written.
        update: the learner's settings.
    """

    model: str
    tokens_max: int
    engine: str
    engine_eager: bool
    engine_sleeps: bool
    batch_tokens_max: int
    advantage_scale: Scale
    advantage_eps: float
    external_baseline_shift: float
    floor_follows: bool
    checkpoints_keep: int
    plan: str
    plans: tuple[str, ...]
    plan_key: str
    update: UpdateSettings

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Read one dict with the keys of the configuration's sections `policy` and `update`, and those of `_OTHER_KEYS`.

        A missing key has its default, and the sections' keys that others read are passed over. "The model's own default",
        which the configuration writes as 0, must have been filled in.

        Raises:
            ConfigError: a key that no section has, or a number of the update out of its range.
        """
        sections = {*PolicySettings.model_fields, *UpdateSection.model_fields, *_OTHER_KEYS}
        own = {field.name for field in fields(UpdateSettings)}
        if unknown := sorted(set(settings) - sections - own):
            raise ConfigError(
                f"the policy process knows no setting {unknown[0]!r}",
                fix="give it the keys of `policy` and `update` in one dict",
            )
        tokens_max = settings.get("tokens_max") or 256
        update = {"completion_tokens_max": tokens_max, **{key: settings[key] for key in own & set(settings)}}
        floor = settings.get("external_logp_min", "off")
        update["external_logp_min"] = -math.inf if isinstance(floor, str) else floor
        update["external_weight_max"] = settings.get("external_weight_max") or math.inf
        return cls(
            model=settings.get("model", ""),
            tokens_max=tokens_max,
            engine=settings.get("engine", "auto"),
            engine_eager=settings.get("engine_eager", False),
            engine_sleeps=settings.get("engine_sleeps", "time-share" in settings.get("plans", ())),
            batch_tokens_max=settings.get("generate_batch_tokens", 16384),
            advantage_scale=settings.get("advantage_scale", "std"),
            advantage_eps=settings.get("advantage_eps", EPS),
            external_baseline_shift=settings.get("external_baseline_shift", 0.0),
            floor_follows=floor == "auto",
            checkpoints_keep=settings.get("checkpoints_keep", 2),
            plan=settings.get("plan", "auto"),
            plans=tuple(settings.get("plans", ())),
            plan_key=settings.get("plan_key", ""),
            update=UpdateSettings.from_dict(update),
        )
