"""Shares: how much of what is drawn one author may be, whatever it sends, and how many authors a share comes from. Pure.

An author's part is the number of its informative rollouts that lie in the buffer or were drawn within the age limit. A part counts
for at most `parts_max` equal parts. Therefore k of N authors are at most k * parts_max / N of the pool. To be that much they must
have sent as many informative rollouts as the honest authors in whose place they are drawn.
"""

import math
from collections.abc import Collection, Iterable, Mapping


def water_line(parts: Collection[int], parts_max: float) -> float:
    """The line at which parts are cut off: `parts_max` times the mean of the parts that it leaves; infinite of no parts.

    Cutting a part off lowers the mean, and with it the line. The largest are cut off one after the other until the next one fits.
    """
    total, num = sum(parts), float(len(parts))
    for part in sorted(parts, reverse=True):
        line = parts_max * total / num
        if part <= line:
            return line
        # `num` stays positive: a part above the line is above parts_max * part / num.
        total, num = total - part, num - parts_max
    return math.inf


def rooms(
    parts: Mapping[bytes, int], drawn: Mapping[bytes, int], *, num_asked: int, parts_max: float
) -> dict[bytes, int]:
    """How many rollouts may still be drawn of each author whose part is above the line; no others are limited.

    The line is never below `parts_max` equal parts of what was asked for. Authors who send more than others therefore fill their
    share of a round also where little is sent, or where half of the authors send next to nothing.

    Args:
        parts: of every author who was heard of, also where it is 0.
        drawn: how many of each part were drawn.
        num_asked: rollouts asked for in the same time.
        parts_max: equal parts that one author may be; 0 limits nobody.
    """
    if not parts or parts_max == 0:
        return {}
    asked = parts_max * num_asked / len(parts)
    line = max(1.0, asked, water_line(parts.values(), parts_max))
    return {
        author: max(0, math.floor(line) - drawn.get(author, 0))
        for author, part in parts.items()
        if part > line
    }


def of_one_draw(num: int, num_authors: int, parts_max: float) -> int:
    """The most of `num` rollouts that one of so many authors may give: its equal parts, rounded up."""
    return math.ceil(parts_max * num / num_authors) if num_authors and parts_max else num


def unproven_max(share_max: float, *, num_local: int, num_external: int) -> int:
    """Rollouts of a training set of I + J that all authors who are not proven may give: the share, rounded down.

    The number is at least 1 unless the share is 0: a swarm without proven authors must learn from others, too. J bounds the number
    in any case.
    """
    share = math.floor(share_max * (num_local + num_external) + 1e-9)  # 0.29 x 100 is 28.999...
    return min(num_external, max(1, share)) if share_max > 0 else 0


def effective_number(held: Iterable[int]) -> float:
    """How many authors rollouts come from in effect: n for n equal ones, near 1 when one has nearly all, 0 of nothing.

    Source: the inverse Simpson index, 1 / sum of squared shares; Kish's effective sample size is the same of weights.
    """
    nums = [num for num in held if num > 0]
    total = sum(nums)
    return total * total / sum(num * num for num in nums) if nums else 0.0
