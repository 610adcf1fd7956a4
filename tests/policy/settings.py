"""Settings of an update in one line, for tests. The guards against strangers are off unless they are named."""

from typing import Any

import torch
from transformers import PreTrainedModel

from swarmd.config import Config, PolicySettings, UpdateSection
from swarmd.policy.plans.ladder import Execution, ladder
from swarmd.policy.update.learner import Learner

_DEFAULTS: dict[str, Any] = {
    "model": "random",
    "external_logp_min": "off",
    "external_weight_max": 0.0,
    "external_share_max": 1.0,
}


def config(**values: Any) -> Config:
    """Settings by their names in `policy` and `update`."""
    sections = {"policy": PolicySettings, "update": UpdateSection}
    given = _DEFAULTS | values
    assert not (unknown := given.keys() - {key for one in sections.values() for key in one.model_fields}), (
        unknown
    )
    return Config.model_validate(
        {
            name: {key: given[key] for key in section.model_fields.keys() & given.keys()}
            for name, section in sections.items()
        }
    )


def execution(device: str | torch.device = "cpu", **values: Any) -> Execution:
    """What the first memory plan of `device` decides, but for parts that are named."""
    return ladder(UpdateSection(), str(device), can_sleep=False)[0].how._replace(**values)


def learner_with(
    model: PreTrainedModel,
    *,
    device: str | torch.device = "cpu",
    kind: type[Learner] = Learner,
    **values: Any,
) -> Learner:
    """A learner under settings and parts of an `Execution`, each by its name."""
    how = {key: values.pop(key) for key in Execution._fields if key in values}
    return kind(model, config(**values), execution(device, **how), device=device)
