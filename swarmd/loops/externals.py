"""Externals: the J rollouts of the swarm that a round trains on beside its own ones."""

import logging
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from swarmd.errors import LocalError
from swarmd.experience.buffer import Sample
from swarmd.experience.fitting import EXTERNAL_BYTES_MAX, within_bytes
from swarmd.experience.own import OwnExperience
from swarmd.experience.rollouts import ScoredRollout
from swarmd.experience.seeds import Seeds
from swarmd.loops.canary.backoff import Backoff
from swarmd.loops.ports import RunBlocking

log = logging.getLogger(__name__)

Admitted = Callable[[Collection[bytes]], Collection[bytes]]
Draw = Callable[[int, random.Random, Sequence[ScoredRollout], Admitted], Sample]


@dataclass
class Externals:
    """`num` is J of the mix. `draw` samples so many external rollouts, of the authors whom the canary's backoff admits."""

    draw: Draw
    run_blocking: RunBlocking
    seeds: Seeds
    num: int

    async def sample(self, number: int, own: OwnExperience, backoff: Backoff) -> Sample:
        """The external rollouts of round `number`, or what there is of them.

        A buffer that cannot be used costs the round its externals, not its update.
        """
        num = 0 if backoff.alone else self.num
        try:
            rng = self.seeds.rng("sample", number)
            admitted = partial(backoff.admitted, rng=self.seeds.rng("return", number))
            sample = cast(Sample, await self.run_blocking(self.draw, num, rng, own.rollouts, admitted))
        except LocalError as error:
            log.warning("no external rollouts for round %d: %s", number, error)
            return Sample([], num_informative_pool=0, num_pool=0, shortfall=num)
        if sample.num_damaged:
            log.warning(
                "%d rollouts in the buffer were damaged on the disk, and are dropped", sample.num_damaged
            )
        fitting = within_bytes(sample.rollouts, EXTERNAL_BYTES_MAX)
        num_left_out = len(sample.rollouts) - len(fitting)
        return replace(sample, rollouts=fitting, shortfall=sample.shortfall + num_left_out)
