"""Texts that broke upstream scorers: 14 that run code, and those that keep a scorer busy, fill its memory or end it."""

from pathlib import Path


def code_texts(markers: Path, port: int) -> list[str]:
    """Answers that make a file or folder below `markers` and call the trap at 127.0.0.1:`port` if anything evaluates them.

    Most make a folder: in the scorer's sandbox that is death by seccomp, which the node reports, while opening a file only fails.

    One for each way in that upstream's scorers have: `eval` on the answer (binary_matrix, spiral_matrix, string_insertion,
    n_queens), sympy's `parse_expr` (puzzle24, countdown, both integrations, polynomial_multiplication), `eval` of the entry
    (bitwise_arithmetic, number_sorting), and what leads to them through LaTeX, f-strings, lists or exceptions.
    """
    files = iter(str(markers / f"text-{number}") for number in range(1, 15))

    def call() -> str:
        return f"__import__('os').system('touch {next(files)}; echo x > /dev/tcp/127.0.0.1/{port}')"

    def made() -> str:
        return f"__import__('os').mkdir('{next(files)}')"

    def connected() -> str:
        return f"{made()}, __import__('socket').create_connection(('127.0.0.1', {port}))"

    return [
        call(),
        f"[{made()}]",
        f"[[{made()}, 1], [0, 1]]",
        f"{made()} or 1/2",
        f"({connected()})",
        f"[c for c in ().__class__.__base__.__subclasses__()] and {call()}",
        f"${{{call()}}}$",
        f"\\frac{{{made()}}}{{2}}",
        f"1 if {made()} else 0",
        f"(lambda: [{connected()}])()",
        f"exec(\"import pathlib; pathlib.Path('{next(files)}').touch()\")",
        f"{{{call()}: 1}}",
        f'f"{{{made()}}}"',
        f"1 + Symbol('x').__class__.__init__.__globals__['__builtins__']['open']('{next(files)}', 'w')",
    ]


def ending_texts() -> list[str]:
    """Answers that end or deceive the process that evaluates them."""
    return [
        "__import__('os')._exit(0)",
        "exit()",
        "(_ for _ in ()).throw(SystemExit)",
        "__import__('os').kill(0, 9)",
        "__import__('sys').modules['reasoning_gym'].__dict__.clear()",
    ]


def busy_texts() -> list[str]:
    """Answers over which upstream's scorers took seconds to for ever, or gigabytes."""
    return [
        "9**9**9",
        "9**9**9**9",
        "1e10000000",
        "1e999999999",
        "-1e-999999999",
        "Infinity",
        "NaN",
        "sNaN123",
        "[" * 1000 + "]" * 1000,
        "(" * 1000,
        "{" * 1000,
        "¬" * 900 + "P",
        "NOT " * 900 + "A",
        " ∨ ".join("ABCDEFGHIJKLMNOPQR"),
        " OR ".join("ABCDEFGHIJKLMNOPQR"),
        "9" * 16_000,
        "1/" + "9" * 15_000,
        "/".join("1" * 60),
        " × ".join("9" * 2000),
        "R100000",
        "A+10000000",
        "<answer>" * 1900,
        "<answer>" + "<answer" * 2000 + "</answer>",
        "\x1b[2J\x1b]0;title\x07",
        "\u202e1",
    ]


def in_tags(text: str) -> str:
    """The text as an answer; one that has tags already stays as it is."""
    return text if "<answer>" in text else f"<answer>{text}</answer>"
