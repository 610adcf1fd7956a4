"""A token bucket: it fills at a steady rate up to a bound, and whoever takes out of it is refused what is not there."""

from dataclasses import dataclass


@dataclass(slots=True)
class Bucket:
    """`level` of at most `burst`, growing by `rate` a second.

    What is known beforehand is taken with `take`, which never goes below zero. What is known only afterwards (how long a scoring
    took), or may go beyond what is there, is charged with `charge`, which may leave a debt: then nothing is allowed until it is
    paid off. So over any time t at most `rate` x t + `burst`, and one charge more, comes out.
    """

    rate: float
    burst: float
    level: float
    filled_at: float

    @classmethod
    def full(cls, rate: float, burst: float, now: float) -> "Bucket":
        """A bucket that nothing was taken from yet."""
        return cls(rate, burst, burst, now)

    def holds(self, amount: float, now: float) -> bool:
        """Whether `amount` could be taken at `now` (seconds); a clock that was set back gains nothing."""
        self.level = min(self.burst, self.level + max(0.0, now - self.filled_at) * self.rate)
        self.filled_at = now
        return self.level >= amount

    def take(self, amount: float, now: float) -> bool:
        """Take all of `amount`, or nothing; whether it was there."""
        if not self.holds(amount, now):
            return False
        self.level -= amount
        return True

    def charge(self, amount: float, now: float) -> None:
        """Take out what was used already, also below zero."""
        self.holds(0.0, now)
        self.level -= amount
