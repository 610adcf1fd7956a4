"""The settings of the policy process, as the daemon's configuration gives them."""

import math

import pytest

from swarmd.config import Config, load_config
from swarmd.errors import ConfigError
from swarmd.policy.options import PolicyOptions


def test_the_configurations_own_defaults_are_understood() -> None:
    config = Config()
    settings = config.policy.model_dump() | config.update.model_dump()
    filled = settings | {"learning_rate": 1e-6, "tokens_max": 100, "checkpoints_keep": 3}
    options = PolicyOptions.from_settings(filled)
    assert (options.model, options.tokens_max, options.checkpoints_keep) == ("tiny", 100, 3)
    assert options.batch_tokens_max == config.policy.generate_batch_tokens
    assert options.update.temperature == config.policy.temperature
    assert options.update.completion_tokens_max == 100


def test_the_guards_of_the_configuration_become_numbers() -> None:
    options = PolicyOptions.from_settings(Config().update.model_dump() | {"learning_rate": 1e-6})
    assert options.floor_follows
    assert options.update.external_logp_min == -math.inf
    settings = {"external_logp_min": "off", "external_weight_max": 0.0, "external_share_max": 1.0}
    options = PolicyOptions.from_settings(settings)
    assert not options.floor_follows
    assert (options.update.external_logp_min, options.update.external_weight_max) == (-math.inf, math.inf)
    fixed = PolicyOptions.from_settings({"external_logp_min": -3.5})
    assert (fixed.floor_follows, fixed.update.external_logp_min) == (False, -3.5)


@pytest.mark.parametrize("value", ["sometimes", 0.5, -1e9])
def test_a_floor_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="external_logp_min"):
        load_config(flags={"update.external_logp_min": value}, environ={})


def test_a_floor_may_be_given_as_text() -> None:
    config = load_config(flags={"update.external_logp_min": "-4"}, environ={})
    assert config.update.external_logp_min == -4.0


def test_nothing_at_all_has_defaults() -> None:
    assert PolicyOptions.from_settings({}).update.learning_rate == 1e-6


@pytest.mark.parametrize("settings", [{"policy": {"model": "tiny"}}, {"lerning_rate": 1e-6}])
def test_a_key_of_no_section_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="knows no setting"):
        PolicyOptions.from_settings(settings)


def test_a_default_that_was_not_filled_in_is_refused() -> None:
    with pytest.raises(ConfigError, match="learning_rate"):
        PolicyOptions.from_settings({"learning_rate": 0.0})
