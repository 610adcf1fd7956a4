"""Fitting: the external rollouts of a training set for which there is room in one frame to the child."""

from collections.abc import Sequence

from swarmd.experience.rollouts import ScoredRollout

# Bytes of other people's text in one training set. A rollout of theirs may have 256 KB. 257 such rollouts would not fit the frame
# to the child (64 MiB), so a peer could have every round of a node with a large J fail. Own rollouts need the rest of the frame.
EXTERNAL_BYTES_MAX = 24 * 2**20


def within_bytes(rollouts: Sequence[ScoredRollout], size_bytes_max: int) -> list[ScoredRollout]:
    """The rollouts that fit, in order, by the bytes of their texts. A rollout that does not fit leaves its room to the next."""
    fitting, left = [], size_bytes_max
    for rollout in rollouts:
        size = sum(len(completion.text.encode()) for completion in rollout.completions)
        if size <= left:
            fitting.append(rollout)
            left -= size
    return fitting
