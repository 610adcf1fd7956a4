"""A report as a list of blocks, written as Markdown or as one HTML file that needs nothing else. All text is escaped here, once."""

import base64
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; margin-top: 2em; }
table { border-collapse: collapse; font-size: .85rem; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #8886; padding: .25rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1.5rem 0; break-inside: avoid; }
img { max-width: 100%; background: #fff; }
figcaption, .small { font-size: .85rem; }
code, pre { font-size: .85rem; overflow-wrap: anywhere; white-space: pre-wrap; }
@media print { body { max-width: none; margin: 0; font-size: 10pt; } table { display: table; } tr { break-inside: avoid; } }
"""
_NUMBER = re.compile(r"[-+−<>≥≤]?[\d.,–]+( ?[×%])?( \[.*\]| ± [\d.]+)?|–|")


class Heading(NamedTuple):
    """A heading of level 1 to 3."""

    level: int
    text: str


class Text(NamedTuple):
    text: str


class Items(NamedTuple):
    items: Sequence[str]


class Table(NamedTuple):
    """A table; rows as long as the head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Code(NamedTuple):
    text: str


class Figure(NamedTuple):
    """A PNG in the report's folder, with what it shows in words."""

    name: str
    caption: str


Block = Heading | Text | Items | Table | Code | Figure


def table_of(rows: Sequence[Mapping[str, str]]) -> Table:
    """A table of rows that name their columns, all in one order."""
    return Table(list(rows[0]), [list(row.values()) for row in rows])


def to_markdown(blocks: Sequence[Block]) -> str:
    """The report with links to its pictures."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def to_html(blocks: Sequence[Block], directory: Path) -> str:
    """The report with its pictures, which lie in `directory`, inside."""
    title = next((html.escape(block.text) for block in blocks if isinstance(block, Heading)), "")
    body = "\n".join(_html(block, directory) for block in blocks)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {escaped(text)}"
        case Text(text):
            return escaped(text)
        case Items(items):
            return "\n".join(f"- {escaped(item)}" for item in items)
        case Table(head, rows):
            lines = [head, ["---"] * len(head), *([escaped(value) for value in row] for row in rows)]
            return "\n".join("| " + " | ".join(line) + " |" for line in lines)
        case Code(text):
            # a fence longer than any run of backticks inside cannot be closed from there
            longest = max((len(run) for run in re.findall("`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            return f"{fence}text\n{text}\n{fence}"
        case Figure(name, caption):
            return f"![{escaped(caption)}]({name}.png)\n\n{escaped(caption)}"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    text = re.sub(r"([\\`*_\[\]<>|~$#&])", r"\\\1", " ".join(text.split()))
    return re.sub(r"^([-+=]|\d+[.)])(?=\s|$)", r"\\\1", text)


def _html(block: Block, directory: Path) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case Text(text):
            return f"<p>{html.escape(text)}</p>"
        case Items(items):
            return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"
        case Table(head, rows):
            top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
            lines = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
            return f"<table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"
        case Code(text):
            return f"<pre><code>{html.escape(text)}</code></pre>"
        case Figure(name, caption):
            data = base64.b64encode((directory / f"{name}.png").read_bytes()).decode()
            words = html.escape(caption)
            return (
                f'<figure><img alt="{words}" src="data:image/png;base64,{data}">'
                f"<figcaption>{words}</figcaption></figure>"
            )


def _cell(value: str) -> str:
    kind = ' class="number"' if _NUMBER.fullmatch(value) else ""
    return f"<td{kind}>{html.escape(value)}</td>"
