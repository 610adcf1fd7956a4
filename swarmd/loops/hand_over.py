"""Hand over: new weights to the generation child that the learner does not share."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from swarmd.errors import LocalError
from swarmd.metrics import Metrics

log = logging.getLogger(__name__)
# A child that died needs a second to be back; a round later there are newer weights anyway.
ATTEMPTS_MAX, RETRY_S = 3, 1.0


async def handed_over(bring: Callable[[], Awaitable[Any]] | None, metrics: Metrics) -> bool:
    """Whether generation has the newest weights; without `bring` it shares them."""
    if bring is None:
        return True
    for attempt in range(ATTEMPTS_MAX):
        began_s = trio.current_time()
        try:
            await bring()
        except LocalError as error:
            log.warning("new weights were not handed over (attempt %d): %s", attempt + 1, error)
            await trio.sleep(RETRY_S)
        else:
            metrics.weight_sync_seconds.observe(trio.current_time() - began_s)
            return True
    return False
