"""Bounds on what a manifest may set: type, range or choice of every dataset parameter, and `min_x <= max_x`.

A bound's `accepts` says whether a manifest may use a value.

A configuration is as dangerous as foreign text (`data_file` reads local files, a precision of 10^9 takes all memory), and upstream
checks by `assert`, which `-O` removes. So a parameter that is not in a dataset's table cannot be set at all.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from swarmd.errors import ConfigError


@dataclass(frozen=True)
class Whole:
    """An int (not a bool) from `low` to `high`, both included."""

    low: int
    high: int

    def accepts(self, value: object) -> bool:
        return type(value) is int and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"an integer from {self.low} to {self.high}"


@dataclass(frozen=True)
class Real:
    """A finite int or float from `low` to `high`, both included."""

    low: float
    high: float

    def accepts(self, value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return math.isfinite(value) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def accepts(self, value: object) -> bool:
        return type(value) is bool

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Choice:
    """One of a few strings."""

    options: tuple[str, ...]

    def accepts(self, value: object) -> bool:
        return type(value) is str and value in self.options

    def __str__(self) -> str:
        return "one of " + ", ".join(self.options)


@dataclass(frozen=True)
class Some:
    """A list of at least one of a few strings, none twice."""

    options: tuple[str, ...]

    def accepts(self, value: object) -> bool:
        if not isinstance(value, list | tuple) or not value or not all(type(item) is str for item in value):
            return False
        return len(set(value)) == len(value) and set(value) <= set(self.options)

    def __str__(self) -> str:
        return "a list of some of " + ", ".join(self.options)


Bound = Whole | Real | Flag | Choice | Some


def span(name: str, low: int, high: int) -> dict[str, Bound]:
    """The two bounds `min_name` and `max_name`, as most datasets have them."""
    return {f"min_{name}": Whole(low, high), f"max_{name}": Whole(low, high)}


def check(dataset: str, params: Mapping[str, object], bounds: Mapping[str, Bound]) -> dict[str, object]:
    """The parameters as a dataset's library takes them.

    Raises:
        ConfigError: an unknown parameter, or a value outside its bound.
    """
    for name, value in params.items():
        if name not in bounds:
            allowed = ", ".join(sorted(bounds)) or "none"
            raise ConfigError(
                f"dataset {dataset}: parameter {name!r} cannot be set", fix=f"allowed here: {allowed}"
            )
        if not bounds[name].accepts(value):
            raise ConfigError(f"dataset {dataset}: {name} is {value!r:.80}", fix=f"it must be {bounds[name]}")
    return {name: list(value) if isinstance(value, tuple) else value for name, value in params.items()}


def check_order(dataset: str, settings: Mapping[str, object]) -> None:
    """Compare every `min_x` with its `max_x`, after the library's defaults were filled in.

    Raises:
        ConfigError: a minimum above its maximum.
    """
    for name, low in settings.items():
        high = settings.get(f"max_{name[4:]}") if name.startswith("min_") else None
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            raise ConfigError(
                f"dataset {dataset}: {name} is {low}, above max_{name[4:]} = {high}",
                "what the manifest leaves out has the library's default",
                f"set {name} and max_{name[4:]} together",
            )
