"""Completions for an item, by the thousand: right, nearly right, wrong, odd, and with more or fewer tags than they should have."""

import random
from collections.abc import Callable, Mapping
from typing import Any

_SHAPES = (
    "", "0", "1", "-1", "+7", "7.0", "1,000", "1e3", "inf", "nan", "1/2", "-3/4", "3/-4", "1/0", "a/b", "٣", "½", "1_0",
    r"$\frac{1}{2}$", r"\dfrac{3}{4}", "[[0, 1], [1, 0]]", "[[0,1],[1,0],]", "[[01]]", "[]", "[[]]", "[0, 1]", "0 1\n1 0", "Monday",
    "sunday", "Mon", "Yes", "no", "True", "P", "¬P", "(P ∧ Q)", "P or Q", "P → Z", "x", "...", "答え", "  ", "\u00a0", "None",
)  # fmt: skip
# No operator with which a text that upstream evaluates could become a large number.
_CHARACTERS = "0123456789 .,-/[]()PQRS∧∨→↔¬abxyz\n$"
# What Python strips and splits at beyond blank, tab and line ends; int(), float(), JSON and `eval` each pass over others of them.
SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u2003\u2028\u3000"


def completions(item: Mapping[str, Any], others: list[str], rng: random.Random, num: int) -> list[str]:
    """`num` completions; `others` are oracles of other items of the dataset."""
    return [_wrapped(_answer(item, others, rng), rng) for _ in range(num)]


def oracle_of(item: Mapping[str, Any]) -> str:
    """The item's answer, or an example of one where any conclusion will do."""
    answer = item["answer"]  # base_conversion writes 0 as nothing at all
    return str(item["metadata"]["example_answer"] if answer is None else answer)


def _answer(item: Mapping[str, Any], others: list[str], rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.15:
        text = rng.choice(_SHAPES)
    elif kind < 0.3:
        text = rng.choice(others)
    elif kind < 0.45 and "premises" in item["metadata"]:
        text = _conclusion(item["metadata"], rng)
    elif kind < 0.55:
        text = _as_number(oracle_of(item), rng)
    else:
        text = oracle_of(item)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        text = rng.choice(_CHANGES)(text, rng)
    return text


def _conclusion(metadata: Mapping[str, Any], rng: random.Random) -> str:
    if rng.random() < 0.3:
        return " ∧ ".join(f"({premise})" for premise in metadata["premises"])
    if rng.random() < 0.2:
        return str(rng.choice(metadata["premises"]))
    return _formula(metadata["variables"], rng, rng.randrange(5))


def _formula(variables: list[str], rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(variables) if rng.random() < 0.97 else "Z"
    if rng.random() < 0.25:
        return "¬" + _formula(variables, rng, depth - 1)
    left, right = (_formula(variables, rng, depth - 1) for _ in range(2))
    text = f"{left} {rng.choice('∧∨→↔')} {right}"
    return f"({text})" if rng.random() < 0.5 else text


def _as_number(oracle: str, rng: random.Random) -> str:
    """Near the oracle where it is a number or a fraction, and the oracle as a list where it is a matrix."""
    if "\n" in oracle:
        rows = [row.split() for row in oracle.splitlines()]
        comma = rng.choice((", ", ",", " , "))
        return "[" + comma.join(f"[{comma.join(row)}]" for row in rows) + rng.choice(("]", "]", ",]", ""))
    top, slash, bottom = oracle.strip("$").partition("/")
    if slash and top.lstrip("-").isdigit() and bottom.isdigit():
        factor = rng.choice((1, 1, 2, 3, -1, 10))
        return f"{int(top) * factor}{rng.choice(('/', ' / ', '/'))}{int(bottom) * factor}"
    try:
        value = float(oracle)
    except ValueError:
        return f"The answer is {oracle}."
    near = value + rng.choice((0, 0, 1e-9, 1e-4, 0.01, 0.5, 1, -1, 7, 100, -2 * value))
    return rng.choice(
        (f"{near:.0f}", f"{near:.3f}", f"{near!r}", f"{near:+.2f}", f"{near:e}", f"{near:,.2f}")
    )


def _at(text: str, rng: random.Random) -> int:
    return rng.randrange(len(text) + 1)


def _inserted(text: str, rng: random.Random) -> str:
    place = _at(text, rng)
    return text[:place] + rng.choice(_CHARACTERS) + text[place:]


def _cut(text: str, rng: random.Random) -> str:
    place = _at(text, rng)
    return text[:place] + text[place + 1 :]


def _swapped(text: str, rng: random.Random) -> str:
    place = _at(text, rng)
    return text[:place] + text[place : place + 2][::-1] + text[place + 2 :]


def _spaced(text: str, rng: random.Random) -> str:
    space, place = rng.choice(SPACES), _at(text, rng)
    return rng.choice(
        (
            f"{space}{text}{space}",
            f"({space}{text})",
            text[:place] + space + text[place:],
            text.replace(" ", space),
        )
    )


_CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    _inserted,
    _inserted,
    _cut,
    _cut,
    _swapped,
    _spaced,
    _spaced,
    lambda text, rng: text[: _at(text, rng)],
    lambda text, rng: rng.choice((" ", "\n", "\t")) + text,
    lambda text, rng: text + rng.choice((" ", "\n", ".", "0", " 0", ".0")),
    lambda text, rng: f"The answer is {text}",
    lambda text, rng: text * 2,
    lambda text, rng: rng.choice((text.upper(), text.lower(), text.title())),
    lambda text, rng: rng.choice((f"({text})", f"[{text}]", f"${text}$", f"'{text}'", f"-{text}")),
    lambda text, rng: text.replace(" ", rng.choice(("", "  ", ","))),
    lambda text, rng: text + rng.choice((" x", "y", "1")) * rng.randrange(1, 200),
)


def _wrapped(answer: str, rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.85:
        return f"Let me see. So it is <answer>{rng.choice(('', ' ', chr(10)))}{answer}</answer>"
    if kind < 0.9:
        return f"<answer>1</answer> No: <answer>{answer}</answer> is better."
    if kind < 0.94:
        return f"<answer>{answer}"
    if kind < 0.97:
        return answer
    return f"<answer>{answer}</answer><answer></answer>"
