"""Balance: own rollouts that teach nothing are made up for by external ones; what is missing counts as short."""

from dataclasses import replace
from typing import Any

import pytest

from swarmd.config import Config, load_config
from swarmd.errors import ConfigError
from swarmd.experience.own import OwnExperience
from tests.loops.parts import Loops, external_rollout, own_batch


def own(num_informative: int, num: int = 4) -> OwnExperience:
    """One round's own rollouts, of which so many have a signal."""
    dull, bright = own_batch(num=num).rollouts, own_batch(num=num).rollouts
    same = [replace(r, completions=(r.completions[1],) * 2) for r in dull]
    return OwnExperience.of(
        [*bright[:num_informative], *same[num_informative:]], num_kept=num, num_tokens=0, seconds=0.0
    )


async def round_of(
    num_informative: int, *, num_there: int = 99, **settings: Any
) -> tuple[Loops, dict[str, Any]]:
    loops = Loops()
    loops.external = [external_rollout(counter) for counter in range(num_there)]
    await loops.update(**{"balance": "informative", **settings}).once(own(num_informative))
    return loops, loops.records[0]


@pytest.mark.parametrize("num_informative", range(5))
async def test_informative_own_and_external_make_up_the_mix(num_informative: int) -> None:
    _, record = await round_of(num_informative, num_external=2)
    assert record["num_own_informative"] + record["num_external"] == 4 + 2
    assert (record["num_own"], record["shortfall"]) == (4, 0)


@pytest.mark.parametrize("num_informative", range(5))
async def test_a_fixed_balance_asks_for_the_mix_whatever_the_own_are_worth(num_informative: int) -> None:
    _, record = await round_of(num_informative, num_external=2, balance="fixed")
    assert (record["num_external"], record["shortfall"]) == (2, 0)


@pytest.mark.parametrize(("num_there", "shortfall"), [(0, 5), (4, 1), (5, 0)])
async def test_the_shortfall_is_against_what_was_asked_for(num_there: int, shortfall: int) -> None:
    loops, record = await round_of(1, num_external=2, num_there=num_there)
    assert (record["num_external"], record["shortfall"]) == (num_there, shortfall)
    assert loops.count("sample_shortfall_total") == shortfall
    assert loops.count("train_external_target_ratio") == pytest.approx(5 / 9)


async def test_with_nothing_of_the_swarm_in_the_mix_only_what_is_worthless_is_made_up_for() -> None:
    _, all_good = await round_of(4, num_external=0)
    _, half_good = await round_of(2, num_external=0)
    assert (all_good["num_external"], half_good["num_external"]) == (0, 2)


def config(**flags: Any) -> Config:
    return load_config(flags={f"experience.{key}": value for key, value in flags.items()}, environ={})


@pytest.mark.parametrize(("balance", "num_external"), [("fixed", 2), ("informative", 6)])
def test_memory_is_planned_for_the_largest_round(balance: str, num_external: int) -> None:
    asked = config(balance=balance, mix="4/2")
    assert (asked.num_external, asked.num_external_max) == (2, num_external)


def test_a_node_without_a_network_asks_for_nothing() -> None:
    solo = load_config(flags={"swarm.solo": True, "experience.balance": "informative"}, environ={})
    assert (solo.num_external, solo.num_external_max) == (0, 0)


@pytest.mark.parametrize("value", ["uninformative", "", "1"])
def test_another_balance_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="balance"):
        config(balance=value)
