"""How many rollouts of a training set may come from authors that are not proven yet, all of them together."""

import math


def unproven_max(share_max: float, *, num_local: int, num_external: int) -> int:
    """The share of a training set of I + J rollouts, rounded down; at least 1 unless the share is 0.

    One rollout always goes in, so that a swarm without proven authors learns from others at all. J bounds the number in any case.
    """
    share = math.floor(share_max * (num_local + num_external) + 1e-9)  # 0.29 x 100 is 28.999...
    return min(num_external, max(1, share)) if share_max > 0 else 0
