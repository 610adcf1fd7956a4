"""Writes the tables of docs/rewards-for-nothing.md: `python -m tests.docs.make_rewards` from the root; some minutes."""

import re
from pathlib import Path

from swarmd.protocol.manifest import load_manifest
from swarmd.questions.cheap import HEAD, cheap_rows, line_of

PAGE = Path(__file__).parents[2] / "docs" / "rewards-for-nothing.md"
NUM_QUESTIONS = 1000


def caption(name: str) -> str:
    """What the figures under it belong to; another manifest asks other questions."""
    return (
        f"Manifest `{name}`, digest `{load_manifest(name).digest.hex()[:16]}`, {NUM_QUESTIONS:,} questions:"
    )


def main() -> None:
    """Replace each table of the page, and the caption above it."""
    text = PAGE.read_text()
    for name in re.findall(r"^Manifest `([a-z-]+)`,", text, re.M):
        rows = "\n".join(line_of(row) for row in cheap_rows(load_manifest(name), NUM_QUESTIONS))
        table = f"{caption(name)}\n\n{HEAD}\n{rows}\n"
        text = re.sub(
            rf"^Manifest `{name}`,.*\n(\n(\|.*\n)+)?", lambda found, table=table: table, text, flags=re.M
        )
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
