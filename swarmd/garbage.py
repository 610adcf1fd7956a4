"""The search for garbage, switched off for a while."""

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
