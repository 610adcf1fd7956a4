"""The settings of a node: what there is (`sections`), what is in force (`load`), and the manual (`reference`)."""

from swarmd.config.load import ENV_OTHERS, ENV_PREFIX, load_config
from swarmd.config.model_sections import Mismatch, PolicySettings, UpdateSection
from swarmd.config.reference import reference
from swarmd.config.sections import Config, known_keys

__all__ = [
    "ENV_OTHERS",
    "ENV_PREFIX",
    "Config",
    "Mismatch",
    "PolicySettings",
    "UpdateSection",
    "known_keys",
    "load_config",
    "reference",
]
