"""T14: py-libp2p numbers messages from the start time in *seconds*; above one message a second, a restart repeats numbers.

The message id is author + number, so the repeats look seen and are dropped everywhere until the seen cache forgets.
Nanoseconds cannot be caught up with: a node would have to send a thousand million messages a second.
"""

import time


def first_seqno() -> int:
    """A message number (uint64) above every one this identity has ever used, as long as the clock is not set back."""
    return time.time_ns()
