"""The search for garbage, switched off for a while, or kept from what stays in use; and what was freed, given back."""

import contextlib
import ctypes
import gc
import threading
import time
from collections.abc import Callable, Iterator

TRIM_EVERY_S = 60.0


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
    """Keep what a started process consists of out of every further search for cycles: one took 20 ms of the event loop. From now on
    give freed memory back now and then.

    Not for processes that replace what they started with (the policy's model): frozen cycles are never freed.
    """
    gc.collect()
    set_aside()
    threading.Thread(target=_keep_trimmed, name="trim", daemon=True).start()


def trim() -> bool:
    """Give pages without anything in use back to the system; whether there were any.

    glibc gives back only what lies at the end of its heap. After 1,800 rounds 17 of the 30 MB of a daemon's heap were free, between
    pieces in use, and the process had grown by 7 KB a round.
    """
    return bool(_malloc_trim is not None and _malloc_trim(0))


def _keep_trimmed() -> None:
    while True:
        time.sleep(TRIM_EVERY_S)
        trim()


def _glibcs_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library, which has its own ways
        return None


_malloc_trim = _glibcs_trim()
