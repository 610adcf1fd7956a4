"""Imports of large libraries without the search for garbage: they leave none, and the search goes through all they define."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """A block that imports. Of the policy's 4 CPU seconds of imports 0.7 were the search for garbage, and of vLLM's 5 more 1.2."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
