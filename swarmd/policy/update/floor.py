"""The floor under external completions: what the own policy finds less likely than nearly all that it says itself is left out.

A right answer behind garbage has an advantage like any right answer, and the garbage would be learnt with it. What the policy could
have said itself is recognised by its mean log-prob a token; the measure is the node's own sampling, so no constant has to fit
every model. A sender has no say in it.
"""

import math
from collections import deque
from collections.abc import Sequence

from swarmd.policy.update.packing import TokenRollout

# Own completions looked back on: 32 rounds of 32, in which a policy moves little. At half, ten of them no longer make a
# percentile; at double, the floor of a policy that becomes surer lags, which lets more through and drops nothing more.
WINDOW = 1024
# Fewer say nothing of a first percentile, so that there is no floor yet: the second round of a default node passes it.
OWN_MIN = 64
PERCENTILE = 0.01
# Nats a token below that percentile: other honest policies say things that this one says rarely, and learning is in them.
MARGIN = 1.0


class Floor:
    """Mean log-probs of the node's latest own completions, as its engine measured them when it sampled."""

    def __init__(self) -> None:
        self._means = deque[float](maxlen=WINDOW)

    def observe(self, rollouts: Sequence[TokenRollout]) -> None:
        """Take a round's own completions in; those without a measurement say nothing."""
        for rollout in rollouts:
            if not rollout.external:
                self._means += [
                    math.fsum(c.engine_logps_T) / len(c.ids) for c in rollout.completions if c.engine_logps_T
                ]

    @property
    def value(self) -> float:
        """The first percentile of what was observed less the margin; -inf while too little was."""
        if len(self._means) < OWN_MIN:
            return -math.inf
        return sorted(self._means)[int(PERCENTILE * len(self._means))] - MARGIN
