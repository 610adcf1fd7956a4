"""One Python file as the count sees it; and where files come from: a folder, or a revision of this repository."""

import ast
import io
import subprocess
import tarfile
import tokenize
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


class Source:
    """A file's text, its syntax tree, and the lines that hold code."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.tree = path, text, ast.parse(text)

    @property
    def num_lines(self) -> int:
        """Lines of every kind."""
        return len(self.text.splitlines())

    @cached_property
    def num_code_lines(self) -> int:
        """Lines without blanks, comments and docstrings."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _LAYOUT:
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                lines.difference_update(_docstring_lines(node.body))
        return len(lines)

    @property
    def module(self) -> str:
        """The dotted name that other files import."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _docstring_lines(body: list[ast.stmt]) -> range:
    first = body[0] if body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


def read_tree(where: str) -> dict[str, str]:
    """Every Python file of a folder or of a git revision, by its path below the top."""
    folder = Path(where)
    if folder.is_dir():
        names = _git("-C", where, "ls-files", "-co", "--exclude-standard", "*.py").decode().split()
        return {name: (folder / name).read_text() for name in names if (folder / name).is_file()}
    with tarfile.open(fileobj=io.BytesIO(_git("-C", str(ROOT), "archive", where))) as archive:
        files = [member for member in archive if member.isfile() and member.name.endswith(".py")]
        return {member.name: archive.extractfile(member).read().decode() for member in files}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
