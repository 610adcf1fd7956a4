"""How many authors rollouts come from in effect. One identity with nearly all of them is about one, whoever is beside it."""

from collections.abc import Iterable


def effective_number(held: Iterable[int]) -> float:
    """1 / sum of squared shares: n for n equal authors, near 1 when one has nearly all, 0 of nothing.

    Source: the inverse Simpson index; Kish's effective sample size is the same of weights.
    """
    nums = [num for num in held if num > 0]
    total = sum(nums)
    return total * total / sum(num * num for num in nums) if nums else 0.0
