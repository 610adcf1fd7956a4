"""Records in frames: a NamedTuple travels as the list of its fields, a dataclass as a map of them, and its type builds it anew."""

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")
# By their types: making an adapter takes milliseconds.
_adapters: dict[object, TypeAdapter[Any]] = {}


def plain(value: object) -> dict[str, object]:
    """The fields of a dataclass, for msgpack, which takes a NamedTuple as it is. Raises TypeError for anything else."""
    if not is_dataclass(value):
        raise TypeError(f"a frame carries no {type(value).__name__}")
    return {field.name: getattr(value, field.name) for field in fields(value)}


def typed(kind: type[T], value: object) -> T:
    """`value`, as a frame carried it, as a `kind`. A value that is a `kind` already stays as it is.

    Raises:
        ValueError: the fields are not those of the record.
    """
    if type(value) is kind:
        return value
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    found: T = _adapters[kind].validate_python(value)
    return found
