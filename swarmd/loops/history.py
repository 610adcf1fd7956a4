"""History: the node's last rounds and evaluations, and whose rollouts it shared, received and used."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from swarmd.clients.policy import State
from swarmd.loops.record import EvaluationRecord, Round
from swarmd.recent import Recent

# Rounds kept in memory for `swarmd status`; the whole history is in rounds.jsonl.
ROUNDS_KEPT = 1000
# Rounds over which the status averages rewards: long enough to be calm at 32 completions a round.
RECENT_ROUNDS = 20
# Authors whose used rollouts are counted; past it the author whose rollouts were used longest ago is forgotten. New identities cost
# a peer nothing, and the counts go into every checkpoint: 4,096 are 250 KB there.
AUTHORS_KEPT = 4096


@dataclass
class History:
    """Rounds and evaluations, newest last, and counts that outlive a restart in the checkpoints."""

    rounds: deque[Round] = field(default_factory=lambda: deque(maxlen=ROUNDS_KEPT))
    evaluations: deque[EvaluationRecord] = field(default_factory=lambda: deque(maxlen=ROUNDS_KEPT))
    used_by_author: Recent[str, int] = field(default_factory=lambda: Recent(AUTHORS_KEPT))
    num_shared: int = 0
    num_received: int = 0

    @property
    def recent(self) -> list[Round]:
        return list(self.rounds)[-RECENT_ROUNDS:]

    def count_used(self, used: Mapping[str, int]) -> None:
        """Add a round's external rollouts by author; the order of `used_by_author` is that of the last use."""
        for peer_id, num in used.items():
            self.used_by_author[peer_id] = self.used_by_author.get(peer_id, 0) + num

    def to_state(self) -> State:
        """The counts, as a checkpoint's state has them."""
        return {
            "used_by_author": self.used_by_author,
            "num_shared": self.num_shared,
            "num_received": self.num_received,
        }

    def resume(self, state: State) -> None:
        """Take the counts of a checkpoint's state; an empty state is a start from nothing."""
        self.used_by_author = Recent(AUTHORS_KEPT)
        self.used_by_author.update(state.get("used_by_author", {}))
        self.num_shared = int(state.get("num_shared", 0))
        self.num_received = int(state.get("num_received", 0))
