"""Pace: which rounds get a checkpoint, so that disks last and a crash costs minutes at most.

The policy can go back to a round that the canary found good, so such a round's checkpoint is worth most. A good round gets one from
two thirds of the interval on, any other round from the whole interval on. A good round gets one in any case where the last good
one's is older than twice the interval.
"""

from dataclasses import dataclass

DAY_S = 86_400
# Checkpoints up to this size are written in every round. That of `tiny` is 11 MB, and a disk takes it in a few milliseconds.
EVERY_ROUND_BYTES_MAX = 64 * 2**20
# The default interval. A 0.5 B model's checkpoint has 7 GB: at half of it, a cheap SSD is worn out in a year and a half.
INTERVAL_S = 900.0


def interval_s(wanted_s: float, size_bytes: int, bytes_a_day_max: float) -> float:
    """Seconds between checkpoints of a size, so that all of them together stay within the bytes of a day (0: no such limit).

    Args:
        wanted_s: as configured; below 0 for a checkpoint a round where it is small, else `INTERVAL_S`.
    """
    if wanted_s < 0:
        wanted_s = 0.0 if size_bytes <= EVERY_ROUND_BYTES_MAX else INTERVAL_S
    # good rounds come at two thirds of it
    return max(wanted_s, 1.5 * size_bytes * DAY_S / bytes_a_day_max if wanted_s and bytes_a_day_max else 0.0)


@dataclass
class Pace:
    """Whether a round gets a checkpoint, by rounds and by the seconds since the last ones were begun.

    `saved_round` is the newest round on disk, `saving_round` one whose checkpoint is being written.
    """

    every_rounds: int
    interval_s: float = 0.0
    begun_s: float = 0.0
    good_s: float = 0.0
    saved_round: int | None = None
    saving_round: int | None = None

    @property
    def background(self) -> bool:
        """Whether checkpoints are written while the node goes on."""
        return self.interval_s > 0

    def resumed(self, round: int, age_s: float, now_s: float) -> None:
        """The node starts from the checkpoint of `round` (0: there is none), which is `age_s` seconds old (none: infinitely).

        The interval runs on across starts, so a node that dies again and again writes no more than one that lives. A third of the
        interval is left in any case, because the first rounds alone would not be worth a checkpoint.
        """
        self.saved_round = round or None
        self.begun_s = self.good_s = now_s - min(max(age_s, 0.0), 2 / 3 * self.interval_s)

    def due(self, round: int, now_s: float) -> bool:
        """Whether any round would get one."""
        return round % self.every_rounds == 0 and now_s - self.begun_s >= self.interval_s

    def good_due(self, now_s: float) -> bool:
        """Whether a round that was measured and found good gets one."""
        return now_s - self.begun_s >= 2 / 3 * self.interval_s or now_s - self.good_s >= 2 * self.interval_s

    def begun(self, now_s: float, *, good: bool = False) -> None:
        """A checkpoint was begun."""
        self.begun_s = now_s
        if good:
            self.good_s = now_s
