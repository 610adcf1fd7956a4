"""Records in frames: a NamedTuple or a frozen dataclass travels as the list of its fields, and is built anew by its type."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def plain(value: Any) -> list[Any]:
    """The fields of a dataclass, for msgpack, which takes a NamedTuple as it is. Raises TypeError for anything else."""
    if not is_dataclass(value):
        raise TypeError(f"a frame carries no {type(value).__name__}")
    return [getattr(value, field.name) for field in fields(value)]


def typed(kind: type[T], value: Any) -> T:
    """`value`, as a frame carried it, as a `kind`. A value that is a `kind` already stays as it is.

    Raises:
        TypeError, ValueError: the fields are not those of the record.
    """
    return _reader(kind)(value)  # type: ignore[no-any-return, arg-type]


def _as_it_is(value: Any) -> Any:
    return value


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, of = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and (hasattr(kind, "_fields") or is_dataclass(kind)):
        return _record_reader(kind)
    if origin in (Union, UnionType):
        (inner,) = (
            (part for part in of if part is not NoneType) if NoneType in of and len(of) == 2 else (Any,)
        )
        read = _reader(inner)
        return read if read is _as_it_is else lambda value: None if value is None else read(value)
    if origin is tuple and of[1:] == (...,):
        each = _reader(of[0])
        return tuple if each is _as_it_is else lambda value: tuple(map(each, value))
    if origin in (list, Sequence):
        item = _reader(of[0])
        return _as_it_is if item is _as_it_is else lambda value: list(map(item, value))
    return _as_it_is


def _record_reader(kind: type) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
    readers = [_reader(hints[name]) for name in names]

    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        return kind(*(reader(field) for reader, field in zip(readers, value, strict=True)))

    return read
