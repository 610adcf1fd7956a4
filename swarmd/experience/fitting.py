"""Fitting: the external rollouts of a training set for which there is room in one frame to the child."""

from collections.abc import Sequence

from swarmd.experience.rollouts import ScoredRollout

# Other people's text in one training set. Their rollouts may have 256 KB each: 257 of them would not fit the frame to the child
# (64 MiB), and a peer could have every round of a node with a large J fail. At double, own rollouts find too little room beside it.
EXTERNAL_BYTES_MAX = 24 * 2**20


def within_bytes(rollouts: Sequence[ScoredRollout], size_bytes_max: int) -> list[ScoredRollout]:
    """Those that fit in their order, by the bytes of their texts; one that does not fit leaves the room to the next."""
    fitting, left = [], size_bytes_max
    for rollout in rollouts:
        size = sum(len(completion.text.encode()) for completion in rollout.completions)
        if size <= left:
            fitting.append(rollout)
            left -= size
    return fitting
