"""The worst order of attacks on a node that backs off: found by trying them all on the real rules, block by block."""

from functools import lru_cache

from swarmd.loops.canary.backoff import FORGOTTEN_AFTER, Backoff

# Rounds between two measurements, the default of `trust.canary_rounds`.
EVERY_ROUNDS = 20


def most_lost(num_rounds: int, backoff: Backoff) -> int:
    """Rounds that can be taken from a node within so many; each block with others ends in a fall, or does not, as is worst."""
    step = backoff.step % FORGOTTEN_AFTER
    return _most_lost(max(0, num_rounds), len(backoff.falls), backoff.num_alone, step)


def worth_a_fall(num_rounds: int, backoff: Backoff) -> bool:
    """Whether a fall at the end of this block takes more in the end than a good one."""
    if backoff.alone:
        return False
    num = backoff.rounds(EVERY_ROUNDS)
    spared = most_lost(num_rounds - num, backoff.good())
    return min(num, num_rounds) + 1 + most_lost(num_rounds - num - 1, backoff.fell(0)) > spared


@lru_cache(None)
def _most_lost(left: int, num_falls: int, num_alone: int, step: int) -> int:
    if left == 0:
        return 0
    backoff = Backoff(falls=(0,) * num_falls, num_alone=num_alone, step=step)
    num = backoff.rounds(EVERY_ROUNDS)
    spared = most_lost(left - num, backoff.good())
    if backoff.alone:
        return spared
    lost = min(num, left) + 1  # the way back takes a round, too
    return max(spared, lost + most_lost(left - num - 1, backoff.fell(0)))
