"""Records through a frame: what went in comes out, of the same types."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from swarmd.processes.frames import FrameReader, encode_frame
from swarmd.processes.values import typed


class Point(NamedTuple):
    x: int
    y: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: tuple[Point, ...]
    ids: tuple[int, ...] | None
    notes: dict[str, Any]


class Drawing(NamedTuple):
    lines_RG: list[list[Line]]
    centre: Point | None
    data: bytes


LINE = Line("a", (Point(1, 2.0), Point(3)), (4, 5), {"b": [1]})
DRAWING = Drawing([[LINE, Line("c", (), None, {})], []], None, b"d")


def carried(kind: Any, value: object) -> Any:
    (found,) = FrameReader(kind).feed(encode_frame(value))
    return found


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Drawing, DRAWING),
        (Drawing, DRAWING._replace(centre=Point(0))),
        (list[Point], [Point(1)]),
        (Sequence[Line], [LINE]),
        (dict[str, Any], {"a": 1}),
        (Line | None, LINE),
        (Line | None, None),
        (int, 1),
        (type(None), None),
    ],
)
def test_a_value_comes_out_as_it_went_in(kind: Any, value: object) -> None:
    found = carried(kind, value)
    assert found == value
    assert type(found) is type(value)


def test_every_record_inside_has_its_type_again() -> None:
    ((line, _), _) = carried(Drawing, DRAWING).lines_RG
    assert (type(line), type(line.points[0]), type(line.ids)) == (Line, Point, tuple)


def test_what_is_typed_already_stays() -> None:
    assert typed(Line, LINE) is LINE


@pytest.mark.parametrize("fields", [[], ["a"], [1, "a"], [1, 2.0, 3], 7, None])
def test_other_fields_than_those_of_the_record_are_refused(fields: object) -> None:
    with pytest.raises(ValueError):
        typed(Point, fields)


def test_what_is_no_record_is_in_no_frame() -> None:
    with pytest.raises(TypeError, match="no set"):
        encode_frame([{1}])
