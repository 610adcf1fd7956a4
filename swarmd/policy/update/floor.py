"""The floors under external completions: what the own policy finds less likely than nearly all that it says itself is left out.

A right answer behind garbage has an advantage like any right answer, and the policy would learn the garbage with it. Two measures
tell text that the policy could have said itself: the mean log-prob of a token, and the least likely token, which would hide in the
mean. The node's own sampling sets both floors, so no constant has to fit every model and no sender has a say.
"""

import math
from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from swarmd.policy.update.packing import TokenRollout

# Own completions looked back on: 32 rounds of 32, in which a policy moves little. At half, ten of them no longer make a
# percentile; at double, the floor of a policy that becomes surer lags, which lets more through and drops nothing more.
WINDOW = 1024
# Fewer say nothing of a first percentile, so that there is no floor yet: the second round of a default node passes it.
OWN_MIN = 64
PERCENTILE = 0.01
# Nats a token below that percentile: other honest policies say things that this one says rarely, and learning is in them. At 0
# a tenth of the held-out reward was lost, at half 3 %; at double, the percentile's spread from round to round reaches garbage.
MARGIN = 2.0
# The same for the least likely token, which varies more from one policy to the next. A letter of garbage lies 5 to 15 nats under
# that percentile of the embedded policy; at half, one honest rollout in 130 lost an answer, and with it all its others.
TOKEN_MARGIN = 4.0


class Floors(NamedTuple):
    """The least mean log-prob a token, and the least log-prob of any token, in nats; -inf is none."""

    mean: float = -math.inf
    token: float = -math.inf

    @property
    def hold(self) -> bool:
        """Whether there is any."""
        return max(self) > -math.inf


class Floor:
    """The floors as the operator wants them; `auto` follows the node's latest own completions, as its engine measured them.

    Args:
        wanted: `update.external_logp_min`.
    """

    def __init__(self, wanted: float | str = "auto") -> None:
        self._wanted = wanted
        self._means = deque[float](maxlen=WINDOW)
        self._least = deque[float](maxlen=WINDOW)

    def observe(self, rollouts: Sequence[TokenRollout]) -> None:
        """Take a round's own completions in; those without a measurement say nothing."""
        for rollout in rollouts:
            if rollout.external:
                continue
            for logps_T in (c.engine_logps_T for c in rollout.completions if c.engine_logps_T):
                self._means.append(math.fsum(logps_T) / len(logps_T))
                self._least.append(min(logps_T))

    @property
    def value(self) -> Floors:
        """A number as it was given; for `auto` the first percentiles of what was observed less the margins, if that was enough."""
        if not isinstance(self._wanted, str):
            return Floors(self._wanted)
        if self._wanted == "off" or len(self._means) < OWN_MIN:
            return Floors()
        return Floors(_percentile(self._means) - MARGIN, _percentile(self._least) - TOKEN_MARGIN)


def _percentile(values: Collection[float]) -> float:
    return sorted(values)[int(PERCENTILE * len(values))]
