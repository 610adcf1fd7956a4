"""The datasets that a swarm may use, of all families. `docs/hacking.md` says how to add a dataset, or a family."""

from collections.abc import Mapping, Sequence

from swarmd.errors import ConfigError, IncompatibleSwarm
from swarmd.questions.family import Family, Offer, Params
from swarmd.questions.gym import REASONING_GYM
from swarmd.questions.parameters import check

# Goes up whenever any reward could change; a manifest names the one it was written for.
SCORER_VERSION = 2
# Names of datasets are unique over all families: a manifest names a dataset and no family.
FAMILIES: Sequence[Family] = (REASONING_GYM,)
OFFERED: Mapping[str, Offer] = {name: offer for family in FAMILIES for name, offer in family.offered.items()}


def family_of(dataset: str) -> Family:
    """The family that offers this dataset.

    Raises:
        IncompatibleSwarm: this build does not offer the dataset; the text says why and names those it does.
    """
    for family in FAMILIES:
        if dataset in family.offered:
            return family
    reasons = [family.refused[dataset] for family in FAMILIES if dataset in family.refused]
    raise IncompatibleSwarm(
        f"dataset {dataset!r} cannot be used in a swarm",
        reasons[0] if reasons else "nobody has reviewed its generator and scorer for this build",
        "use some of: " + ", ".join(sorted(OFFERED)),
    )


def check_dataset(dataset: str, params: Params, reward: str) -> dict[str, object]:
    """The parameters of one dataset of a manifest, as its library takes them.

    Raises:
        IncompatibleSwarm: the dataset is not offered.
        ConfigError: a parameter is unknown or out of bounds, or the reward rule does not go with the dataset.
    """
    offer = family_of(dataset).offered[dataset]
    if offer.exact_only and reward != "exact":
        raise ConfigError(
            f"dataset {dataset}: reward is {reward!r}",
            "partial credit would be most of what it pays",
            'set reward = "exact"',
        )
    return check(dataset, params, offer.bounds)
