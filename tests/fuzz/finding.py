"""A broken promise, found by a target: what an input did that no input may do."""


class Finding(AssertionError):
    """The text says which promise, with the number and the limit."""


def require(holds: bool, what: str) -> None:
    """Raise unless `holds`. Not `assert`: a target must also find things under `python -O`."""
    if not holds:
        raise Finding(what)
