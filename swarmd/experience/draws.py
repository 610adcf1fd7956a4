"""One draw from the buffer: what may be drawn, and how much of it each author may give."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from sqlite3 import Connection

from swarmd.experience import schema
from swarmd.experience.sampling import Candidate, cut_off, draw, draw_limited
from swarmd.experience.shares import of_one_draw, rooms

# Stands for all authors who are not proven. No author has an empty key.
UNPROVEN = b""
# One draw in so many keeps a place for an author whose rollouts updates leave out. Without these probes the node would not notice
# that its policy comes to speak like the author. With four external rollouts a round, they take 3 % of the places.
PROBE_DRAWS = 8


@dataclass(frozen=True, slots=True)
class Admission:
    """Says which authors' rollouts may be drawn.

    The buffer calls all functions under its lock, each once for an author at most. They must not call the buffer.

    Attributes:
        proven: whether an author is proven. All others count as one author.
        unproven_max: rollouts that all authors who are not proven may give together.
        left_out: whether updates leave out most of what an author, who is not proven then, gives.
        banned: whether nothing of an author may be drawn.
        author_parts_max: equal parts of the pool, and of one draw, that one author may be (`shares`); 0 limits nobody.
        admitted: of the authors who have something to draw, those who may be drawn from now.
    """

    proven: Callable[[bytes], bool]
    unproven_max: int
    left_out: Callable[[bytes], bool] = lambda author: False
    banned: Callable[[bytes], bool] = lambda author: False
    author_parts_max: float = 0.0
    admitted: Callable[[Collection[bytes]], Collection[bytes]] = lambda authors: authors


@dataclass(frozen=True, slots=True)
class Pool:
    """The rollouts that may be drawn at one moment: nothing of banned authors, and nothing of authors who are not admitted now.

    Attributes:
        candidates: every informative rollout that is neither over-age nor used up.
        num_uninformative: young rollouts without signal.
        authors: authors who were heard of within the age limit; where some authors are not admitted, the admitted ones.
        unproven: those of `authors` who are not proven.
        left_out: those of `unproven` whose rollouts updates leave out.
        num_asked, drawn: rollouts asked for within the age limit, and rollouts drawn, by author.
        num_authors, num_authors_out: authors who have something to draw, and those of them who are not admitted.
    """

    candidates: list[Candidate]
    num_uninformative: int
    authors: frozenset[bytes]
    unproven: frozenset[bytes]
    left_out: frozenset[bytes]
    num_asked: int
    drawn: dict[bytes, int]
    num_authors: int
    num_authors_out: int

    @classmethod
    def find(cls, db: Connection, cutoff_ms: int, whose: schema.Whose, admission: Admission | None) -> "Pool":
        """The pool of the authors that `whose` names. Without an admission nobody is banned, and all are proven."""
        candidates = schema.candidates(db, cutoff_ms, whose)
        uninformative = schema.uninformative_by_author(db, cutoff_ms, whose)
        num_asked, drawn = schema.drawn_lately(db)
        authors = {candidate.author for candidate in candidates} | uninformative.keys() | drawn.keys()
        banned = {author for author in authors if admission is not None and admission.banned(author)}
        if banned:
            candidates = [candidate for candidate in candidates if candidate.author not in banned]
        authors -= banned
        present = {candidate.author for candidate in candidates}
        admitted = present if admission is None else set(admission.admitted(present))
        if admitted != present:
            candidates = [candidate for candidate in candidates if candidate.author in admitted]
            authors = admitted
        unproven = frozenset(a for a in authors if admission is not None and not admission.proven(a))
        return cls(
            candidates,
            sum(num for author, num in uninformative.items() if author in authors),
            frozenset(authors),
            unproven,
            frozenset(a for a in unproven if admission is not None and admission.left_out(a)),
            num_asked,
            {author: num for author, num in drawn.items() if author in authors},
            len(present),
            len(present - admitted),
        )

    def draw(self, num: int, rng: random.Random, admission: Admission | None) -> list[int]:
        """At most `num` rows, within what `admission` lets each author give.

        A rollout that updates leave out teaches nobody, and would take the place of a rollout that does. At most one such is
        drawn: where a place is left, and in one of `PROBE_DRAWS` draws in any case.
        """
        if admission is None:
            return draw(self.candidates, num, rng)
        if not self.left_out:
            return self._draw_useful(self.candidates, num, rng, admission)
        useful = [candidate for candidate in self.candidates if candidate.author not in self.left_out]
        probes = [candidate for candidate in self.candidates if candidate.author in self.left_out]
        probe = draw(probes, 1, rng) if probes and admission.unproven_max > 0 else []
        num_kept = int(bool(probe) and rng.randrange(PROBE_DRAWS) == 0)
        others = replace(admission, unproven_max=admission.unproven_max - num_kept)
        rows = self._draw_useful(useful, num - num_kept, rng, others)
        drawn = set(rows)
        num_unproven = sum(
            candidate.row in drawn and candidate.author in self.unproven for candidate in useful
        )
        return (rows + probe)[:num] if num_unproven < admission.unproven_max else rows

    def _draw_useful(
        self,
        candidates: Sequence[Candidate],
        num: int,
        rng: random.Random,
        admission: Admission,
    ) -> list[int]:
        parts_max = admission.author_parts_max
        parts, drawn = self._parts(), self._by_holder(self.drawn)
        room = rooms(parts, drawn, num_asked=self.num_asked + num, parts_max=parts_max)
        return draw_limited(
            cut_off(candidates, room, rng, self._holder),
            num,
            rng,
            holder=self._holder,
            limits={UNPROVEN: admission.unproven_max},
            holder_max=of_one_draw(num, len(parts), parts_max),
        )

    def _holder(self, author: bytes) -> bytes:
        return UNPROVEN if author in self.unproven else author

    def _parts(self) -> dict[bytes, int]:
        """How many informative rollouts each holder sent; 0 for a holder of whom nothing can teach."""
        found = Counter(candidate.author for candidate in self.candidates)
        found.update(self.drawn)
        return self._by_holder({author: found[author] for author in self.authors})

    def _by_holder(self, nums: dict[bytes, int]) -> dict[bytes, int]:
        """The numbers of each holder's authors, added up. Authors whose rollouts updates leave out have no part."""
        found: dict[bytes, int] = {}
        for author, num in nums.items():
            if author not in self.left_out:
                found[self._holder(author)] = found.get(self._holder(author), 0) + num
        return found
