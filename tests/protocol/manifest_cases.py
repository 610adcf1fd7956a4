"""Bytes that are a manifest, only just, and bytes that are almost one."""

import copy
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from swarmd.protocol.manifest import INTEGER_MAX
from tests.protocol.craft import pack
from tests.protocol.second.manifest import LIMITS, packed

PLAIN: dict[str, Any] = {
    "version": 2,
    "name": "edges",
    "datasets": [{"name": "gcd", "params": {}, "weight": 1.0, "reward": "exact", "golden": ""}],
    "prompt_template": "{question}",
    "answer_format": "plain",
    "scorer_version": 1,
    "epoch": 0,
    "held_out_per_mille": 50,
    "limits": {name: low if name != "message_bytes_max" else high for name, (low, high) in LIMITS.items()},
}


@dataclass(frozen=True)
class ManifestCase:
    """Bytes, and whether they are a manifest."""

    name: str
    data: bytes
    good: bool


def manifest_cases() -> list[ManifestCase]:
    """Those that are taken first."""
    good = [ManifestCase(name, packed(fields), True) for name, fields in _edges()]
    return good + [ManifestCase(name, packed(fields), False) for name, fields in _past()] + list(_forms())


def changed(**changes: Any) -> dict[str, Any]:
    """PLAIN with some fields changed; `...` removes one."""
    fields = copy.deepcopy(PLAIN) | changes
    return {name: value for name, value in fields.items() if value is not ...}


def dataset(**changes: Any) -> dict[str, Any]:
    """PLAIN with its dataset changed."""
    fields = PLAIN["datasets"][0] | changes
    return changed(datasets=[{name: value for name, value in fields.items() if value is not ...}])


def limited(**changes: Any) -> dict[str, Any]:
    """PLAIN with other limits."""
    fields = PLAIN["limits"] | changes
    return changed(limits={name: value for name, value in fields.items() if value is not ...})


def _edges() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "plain", PLAIN
    yield "a name of 32 characters", changed(name="a" + "-9" * 15 + "z")
    yield "a template of 8192 characters", changed(prompt_template="é" * 8182 + "{question}")
    yield (
        "the largest numbers",
        changed(scorer_version=INTEGER_MAX, epoch=INTEGER_MAX, held_out_per_mille=500),
    )
    yield "nothing held out", changed(held_out_per_mille=0)
    yield "the largest weight", dataset(weight=1e6)
    yield "the smallest weight", dataset(weight=5e-324)
    yield "a sealed dataset", dataset(golden="0123456789abcdef" * 4)
    yield "a dataset's name of 64 characters", dataset(name="a" + "_9" * 31 + "z")
    yield "the same dataset twice", changed(datasets=PLAIN["datasets"] * 2)
    values = [True, False, 0, -1, INTEGER_MAX, -INTEGER_MAX, 0.5, -0.0, 1e308, "", "é" * 1024]
    yield (
        "every kind of parameter",
        dataset(params={"a": values, **{f"p{i}": v for i, v in enumerate(values)}}),
    )
    yield "64 parameters", dataset(params={f"p{i}": i for i in range(64)})
    yield "a parameter of 256 elements", dataset(params={"a": [1] * 256})
    yield "8,192 completions in a batch, many rollouts", limited(rollouts_max=1024, completions_max=8)
    yield "8,192 completions in a batch, large rollouts", limited(rollouts_max=32, completions_max=256)
    for name, (low, high) in LIMITS.items():
        for value in (low, high):
            rest = {"completions_max": 256} if name == "completions_min" else {}
            yield f"{name} = {value}", limited(**{name: value, **rest})


def _past() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in PLAIN:
        yield f"{name} is missing", changed(**{name: ...})
        yield f"{name} is nil", changed(**{name: None})
    yield "a field nobody knows", changed(comment="")
    for name, value in (
        ("version", 1),
        ("version", 3),
        ("version", True),
        ("version", 2.0),
        ("version", "2"),
    ):
        yield f"{name} = {value!r}", changed(**{name: value})
    for value in ("", "A", "9a", "a_b", "a" * 33, "a\n", "é"):
        yield f"name = {value!r}", changed(name=value)
    for value in ([], {}, [[]]):
        yield f"datasets of {len(value)}: {type(value).__name__}", changed(datasets=value)
    for value in ("", "question", "{question} {question}", "é" * 8183 + "{question}"):
        yield (
            f"a template of {len(value)} characters, {value.count('{question}')} questions",
            changed(prompt_template=value),
        )
    yield "another answer format", changed(answer_format="xml")
    for name, value in (
        ("scorer_version", 0),
        ("scorer_version", INTEGER_MAX + 1),
        ("epoch", -1),
        ("epoch", INTEGER_MAX + 1),
        ("epoch", 0.0),
        ("held_out_per_mille", 501),
        ("held_out_per_mille", -1),
    ):
        yield f"{name} = {value!r}", changed(**{name: value})
    for name, value in (
        ("weight", 0.0),
        ("weight", -1.0),
        ("weight", 1e6 + 1e-6),
        ("weight", float("nan")),
        ("weight", float("inf")),
        ("weight", 1),
        ("reward", "none"),
        ("golden", "0" * 63),
        ("golden", "A" + "0" * 63),
        ("golden", "1" * 64 + "\n"),
        ("name", "Gcd"),
        ("name", "a" * 65),
        ("name", "a-b"),
        ("name", ...),
        ("golden", ...),
        ("seed", 1),
        ("params", []),
        ("params", {"A": 1}),
        ("params", {"a": None}),
        ("params", {"a": [[1]]}),
        ("params", {"a": {}}),
        ("params", {"a": INTEGER_MAX + 1}),
        ("params", {"a": -INTEGER_MAX - 1}),
        ("params", {"a": float("nan")}),
        ("params", {"a": [float("-inf")]}),
        ("params", {"a": "x" * 1025}),
        ("params", {"a": [1] * 257}),
        ("params", {f"p{i}": i for i in range(65)}),
    ):
        yield f"a dataset with {name} = {value!r:.40}", dataset(**{name: value})
    for name, (low, high) in LIMITS.items():
        yield f"{name} = {low - 1}", limited(**{name: low - 1})
        yield f"{name} = {high + 1}", limited(**{name: high + 1})
        yield f"limits without {name}", limited(**{name: ...})
    yield "a limit as a float", limited(rollouts_max=2.0)
    yield "a limit nobody knows", limited(texts_max=1)
    yield "8,194 completions in a batch", limited(rollouts_max=34, completions_max=241)
    yield "all limits at their highest", limited(**{name: high for name, (_, high) in LIMITS.items()})
    yield "more completions at least than at most", limited(completions_min=3, completions_max=2)
    yield (
        "65,537 bytes and more",
        changed(datasets=[PLAIN["datasets"][0] | {"params": {"a": ["é" * 1024] * 33}}]),
    )


def _forms() -> Iterator[ManifestCase]:
    """The right fields in another form."""
    data = packed(PLAIN)
    for name, form in {
        "keys in another order": pack(dict(sorted(PLAIN.items(), reverse=True))),
        "keys of a dataset in another order": pack(
            dict(sorted(PLAIN.items()))
            | {
                "limits": dict(sorted(PLAIN["limits"].items())),
                "datasets": [dict(sorted(PLAIN["datasets"][0].items(), reverse=True))],
            }
        ),
        "an integer in two bytes": data.replace(b"\xa7version\x02", b"\xa7version\xcc\x02"),
        "a signed integer": data.replace(b"\xa7version\x02", b"\xa7version\xd0\x02"),
        "a weight of four bytes": data.replace(
            b"\xcb" + struct.pack(">d", 1.0), b"\xca" + struct.pack(">f", 1.0)
        ),
        "a name of length in a byte": data.replace(b"\xa5edges", b"\xd9\x05edges"),
        "a name as bytes": data.replace(b"\xa5edges", b"\xc4\x05edges"),
        "a map of length in two bytes": b"\xde\x00" + bytes([data[0] & 15]) + data[1:],
        "a byte behind": data + b"\x00",
        "a byte missing": data[:-1],
        "a key twice": bytes([data[0] + 1]) + data[1:] + b"\xa7version\x02",
        "nothing": b"",
        "an array": pack([PLAIN]),
        "an extension type": data.replace(b"\xa5edges", b"\xc7\x00\x05"),
        "text that is no UTF-8": data.replace(b"\xa5edges", b"\xa5\xffdges"),
    }.items():
        assert form != data, name
        yield ManifestCase(name, form, False)
