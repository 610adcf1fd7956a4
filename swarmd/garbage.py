"""The search for garbage, switched off for a while, or kept from what stays in use."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def unsearched() -> Iterator[None]:
    """Switch the search off for a block whose many objects all stay in use: it would go through them and find nothing.

    Threads that do so at once leave it on at worst.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def set_aside() -> None:
    """Keep all objects that there are now out of every further search.

    vLLM searches half a dozen times while it starts and then sets everything aside itself. Each search of what it has imported
    takes 0.3 s and finds nothing.
    """
    gc.freeze()


def settle() -> None:
    """Keep what a started process consists of out of every further search for cycles: one took 20 ms of the event loop.

    Not for processes that replace what they started with (the policy's model): frozen cycles are never freed.
    """
    gc.collect()
    set_aside()
