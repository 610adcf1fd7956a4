"""Standings: what this node has seen of each author. An author is a 32-byte public key, the same key as its peer id."""

from dataclasses import dataclass


@dataclass(slots=True)
class Standing:
    """One author.

    `num_scored` counts rollouts that were scored here without a finding of guard or sandbox, `num_informative` those of them with
    unequal rewards.
    """

    num_scored: int = 0
    num_informative: int = 0


class Standings:
    """Standings by author.

    Args:
        proven_rollouts: how many scored rollouts make an author a proven one.
    """

    def __init__(self, *, proven_rollouts: int) -> None:
        self._proven_rollouts = proven_rollouts
        self._by_author: dict[bytes, Standing] = {}

    def proven(self, author: bytes) -> bool:
        """Whether enough rollouts of this author were scored here for it to be more than a new identity, which costs nothing."""
        standing = self._by_author.get(author)
        return standing is not None and standing.num_scored >= self._proven_rollouts

    def scored(self, author: bytes, *, num_rollouts: int, num_informative: int) -> None:
        """Rollouts of an author were scored without a finding."""
        standing = self._by_author.setdefault(author, Standing())
        standing.num_scored += num_rollouts
        standing.num_informative += num_informative
