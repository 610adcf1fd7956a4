"""How much of what is drawn one author may be, whatever it sends. Pure.

An author's part is the number of its informative rollouts that lie in the buffer or were drawn within the age limit. A part counts
for at most `parts_max` equal parts. Therefore k of N authors are at most k * parts_max / N of the pool. To be that much they must
have sent as many informative rollouts as the honest authors in whose place they are drawn.
"""

import math
from collections.abc import Collection, Mapping


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
