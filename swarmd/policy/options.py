"""The settings the policy process reads, out of the daemon's configuration; imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from swarmd.errors import ConfigError
from swarmd.experience.advantages import Scale
from swarmd.policy.models import TINY
from swarmd.policy.update_settings import UpdateSettings

# Defaults where the configuration says 0, which is "the model's own". The tiny policy is trained from scratch and answers in a
# few characters; 256 tokens and 1e-6 are what the public trainers of this algorithm use for real models.
TINY_LEARNING_RATE, LEARNING_RATE = 3e-4, 1e-6
TINY_TOKENS_MAX, TOKENS_MAX = 16, 256


@dataclass(frozen=True)
class PolicyOptions:
    """What generation, tokenising and checkpoints need; the update's own numbers are in `update`.

    Attributes:
        is_tiny: the embedded model, which has defaults of its own.
        tokens_max: longest completion; other people's text is cut there.
        batch_tokens_max: see `TransformersEngine`.
        advantage_scale, advantage_eps: see `experience.advantages`.
        checkpoints_keep: how many are kept.
        update: the learner's settings.
    """

    is_tiny: bool
    tokens_max: int
    batch_tokens_max: int
    advantage_scale: Scale
    advantage_eps: float
    checkpoints_keep: int
    update: UpdateSettings

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Read `{"policy": {...}, "update": {...}, "checkpoint": {...}}`, the sections of the configuration as plain dicts.

        Every key has the configuration's default when it is missing.

        Raises:
            ConfigError: a section that is none of these, or an update setting that the learner does not know.
        """
        unknown = sorted(set(settings) - {"policy", "update", "checkpoint"})
        if unknown:
            raise ConfigError(f"the policy has no settings section {unknown[0]!r}")
        policy = settings.get("policy", {})
        update = dict(settings.get("update", {}))
        is_tiny = policy.get("model") == TINY
        tokens_max = policy.get("tokens_max") or (TINY_TOKENS_MAX if is_tiny else TOKENS_MAX)
        scale, eps = update.pop("advantage_scale", "std"), update.pop("advantage_eps", 1e-4)
        update["learning_rate"] = update.get("learning_rate") or (
            TINY_LEARNING_RATE if is_tiny else LEARNING_RATE
        )
        update.setdefault("temperature", policy.get("temperature", 1.0))
        update.setdefault("completion_tokens_max", tokens_max)
        return cls(
            is_tiny=is_tiny,
            tokens_max=tokens_max,
            batch_tokens_max=policy.get("generate_batch_tokens", 16384),
            advantage_scale=scale,
            advantage_eps=eps,
            checkpoints_keep=settings.get("checkpoint", {}).get("keep", 2),
            update=UpdateSettings.from_dict(update),
        )
