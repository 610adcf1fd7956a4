"""A token bucket: it fills at a steady rate up to a bound, and gives only what it holds."""

from dataclasses import dataclass


@dataclass(slots=True)
class Bucket:
    """`level` of at most `burst`, growing by `rate` a second.

    `take` is for an amount that is known beforehand, and never goes below zero. `charge` is for an amount that is known only
    afterwards, such as the time of a scoring. It may leave a debt, and nothing can be taken until the debt is paid off. Over any
    time t the bucket gives at most `rate` x t + `burst`, and one charge more.
    """

    rate: float
    burst: float
    level: float
    filled_at: float

    @classmethod
    def full(cls, rate: float, burst: float, now: float) -> "Bucket":
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
        """Take out an amount that was used already, also below zero."""
        self.holds(0.0, now)
        self.level -= amount
