"""Backoff: whose rollouts may be drawn after the policy fell, and for how long nobody's may.

Whoever can make the policy fall costs the node a block: the rounds between two measurements. So the node learns alone after a fall,
for 1 block, then 4, then 16, and a block with others is half as long until the falls are forgotten. Other authors come back 1, 2,
4, ... at a time, with each good block: first those who were in no fallen block, then those who were in most good ones. Good
behaviour does not end this soon: a fall is forgotten after `FORGOTTEN_AFTER` such blocks. No order of attacks costs a
node a tenth of 600 rounds (`tests/loops/canary/test_backoff.py` tries them all).

All is counted in good measurements, and so holds whatever the number of rounds between them is.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from swarmd.clients.policy import State

# Blocks alone after the first, second and third remembered fall: powers of 4. Powers of 2 cost 600 rounds under attack 11 %. No
# longer than 16 blocks, 320 rounds for the 11 that a fall costs then: else a swarm would be lost for good.
ALONE_FACTOR, FALLS_MAX = 4, 3
# Good blocks, after those alone, until the oldest fall is forgotten: 500 rounds. With 30, attacks now and then cost 11 %.
FORGOTTEN_AFTER = 50
# Fallen blocks, not made good since, from which on an author is kept out by itself; one is every bystander's lot.
DOUBTED_FROM = 2
# Good measurements for which such an author is kept out: 4 to the power of its fallen blocks, 16 at first, at most 1,024.
KEPT_OUT_FACTOR, KEPT_OUT_MAX = 4, 5
# Authors remembered. An entry is 80 bytes in each checkpoint, and a block of 20 rounds at 4/4 has at most 80 authors.
AUTHORS_MAX = 512
# Good blocks that count for an author: more of them do not make it more trusted.
GOOD_MAX = 100


@dataclass(frozen=True, slots=True)
class Conduct:
    """The fate of the blocks in which an author's rollouts were used.

    Attributes:
        num_good: good blocks, at most `GOOD_MAX`.
        num_fallen: fallen blocks, less the good ones after them.
        out_until: it is not drawn before so many good measurements of this node.
    """

    num_good: int = 0
    num_fallen: int = 0
    out_until: int = 0

    @property
    def doubted(self) -> bool:
        """Whether it was in too many fallen blocks to be a bystander."""
        return self.num_fallen >= DOUBTED_FROM

    @property
    def rank(self) -> tuple[int, int]:
        """Who comes back first; an author that nobody knows comes after those who once did well, however many fell with them."""
        is_known = self.num_good > 0 or self.num_fallen > 0
        return (self.num_fallen if is_known else DOUBTED_FROM - 1, -self.num_good)


@dataclass(frozen=True, slots=True)
class Backoff:
    """The memory of falls.

    Attributes:
        falls: rounds in which the node went back, those that are remembered, oldest first.
        num_alone: blocks that are still to be learnt alone.
        step: good blocks since it was alone last; at most 2 ** step authors are in the next.
        num_measured: good measurements so far.
        block: authors whose rollouts were used since the last good measurement.
        conducts: by author, the one that was used longest ago first.
    """

    falls: tuple[int, ...] = ()
    num_alone: int = 0
    step: int = 0
    num_measured: int = 0
    block: tuple[bytes, ...] = ()
    conducts: Mapping[bytes, Conduct] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Whether nothing from others is to be trained on until the next measurement."""
        return self.num_alone > 0

    def rounds(self, every_rounds: int) -> int:
        """The length of this block: half as long with others while falls are remembered, so that the next one costs half."""
        return every_rounds if self.alone or not self.falls else max(1, every_rounds // 2)

    def admitted(self, authors: Iterable[bytes], rng: random.Random) -> set[bytes]:
        """Those of the authors whose rollouts may be drawn now.

        Authors that are doubted are kept out for a time, and then while a fall is remembered, and come one at a time.
        """
        if self.alone:
            return set()
        authors = sorted(authors)
        rng.shuffle(authors)
        authors.sort(key=lambda author: (author not in self.block, self._of(author).rank))
        admitted = [author for author in authors if not self._of(author).doubted]
        if self.falls:
            used = set(self.block)
            room = max(0, 2 ** min(self.step, AUTHORS_MAX.bit_length()) - len(used))
            new = [author for author in admitted if author not in used]
            return {author for author in admitted if author in used} | set(new[:room])
        doubted = [author for author in authors if self._of(author).doubted]
        tried = [author for author in self.block if self._of(author).doubted]
        may_come = [author for author in doubted if self._of(author).out_until <= self.num_measured]
        return {*admitted, *([author for author in doubted if author in tried] if tried else may_come[:1])}

    def used(self, authors: Iterable[bytes]) -> Self:
        """A round has trained on rollouts of these authors."""
        block = tuple(dict.fromkeys((*self.block, *authors)))[:AUTHORS_MAX]
        return replace(self, block=block)

    def good(self) -> Self:
        """A good measurement: who was in the block is a little less doubted, and a block alone is done."""
        settled = self._settled(
            lambda conduct: replace(
                conduct,
                num_good=min(GOOD_MAX, conduct.num_good + 1),
                num_fallen=max(0, conduct.num_fallen - 1),
            ),
            num_measured=self.num_measured + 1,
        )
        if self.alone:
            return replace(settled, num_alone=self.num_alone - 1)
        if not self.falls:
            return settled
        if (self.step + 1) % FORGOTTEN_AFTER:
            return replace(settled, step=self.step + 1)
        falls = self.falls[1:]
        return replace(settled, falls=falls, step=self.step + 1 if falls else 0)

    def doubtful(self) -> Self:
        """A suspicion that was neither confirmed nor refuted: nobody adds to it until the policy is found good."""
        return replace(self, num_alone=max(1, self.num_alone)) if self.block else self

    def fell(self, round: int) -> Self:
        """The policy fell with others' rollouts in use; the node goes on as `round`."""
        falls = (*self.falls, round)[-FALLS_MAX:]
        settled = self._settled(self._fallen, num_measured=self.num_measured)
        return replace(settled, falls=falls, num_alone=ALONE_FACTOR ** (len(falls) - 1), step=0)

    def exculpated(self) -> Self:
        """The policy fell alone: so it does by itself, and the falls before may have been its own, too."""
        return replace(self, falls=(), num_alone=0, step=0, block=())

    def _fallen(self, conduct: Conduct) -> Conduct:
        num_fallen = min(KEPT_OUT_MAX, conduct.num_fallen + 1)
        out_until = self.num_measured + KEPT_OUT_FACTOR**num_fallen
        return replace(
            conduct,
            num_fallen=num_fallen,
            out_until=out_until if num_fallen >= DOUBTED_FROM else conduct.out_until,
        )

    def _settled(self, change: Callable[[Conduct], Conduct], *, num_measured: int) -> Self:
        """With a changed conduct of everybody in the block, which is over."""
        conducts = dict(self.conducts)
        for author in self.block:
            conducts[author] = change(conducts.pop(author, Conduct()))
        for author in list(conducts)[: max(0, len(conducts) - AUTHORS_MAX)]:
            del conducts[author]
        return replace(self, block=(), conducts=conducts, num_measured=num_measured)

    def _of(self, author: bytes) -> Conduct:
        return self.conducts.get(author, Conduct())

    def to_state(self) -> State:
        return {
            "falls": list(self.falls),
            "num_alone": self.num_alone,
            "step": self.step,
            "num_measured": self.num_measured,
            "block": [author.hex() for author in self.block],
            "records": [
                [author.hex(), conduct.num_good, conduct.num_fallen, conduct.out_until]
                for author, conduct in self.conducts.items()
            ],
        }

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The inverse of `to_state`. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            falls=tuple(map(int, state["falls"]))[-FALLS_MAX:],
            num_alone=int(state["num_alone"]),
            step=int(state["step"]),
            num_measured=int(state["num_measured"]),
            block=tuple(map(bytes.fromhex, state["block"])),
            conducts={bytes.fromhex(author): Conduct(*map(int, rest)) for author, *rest in state["records"]},
        )
