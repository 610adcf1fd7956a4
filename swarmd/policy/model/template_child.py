"""The process that renders a chat template: no more memory, time and output than a template needs, and Jinja's sandbox within.

The sandbox keeps a template from reaching Python; the limits keep what it may still do, loops and long texts, from mattering.
"""

import json
import resource
import sys
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

from swarmd.policy.model.template import QUESTION, RENDERED_CHARS_MAX, SPACED

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.nodes import Node
    from jinja2.parser import Parser

# The interpreter with Jinja takes 60 MB of address space, and a fifth of a second.
_MEMORY_BYTES, _CPU_S = 512 * 2**20, 3
_ERROR_CHARS_MAX = 300


def main() -> None:
    """Read a request on stdin; write both texts to stdout, or what went wrong."""
    request = json.load(sys.stdin)
    _limit()
    try:
        answer = {
            name: _rendered(request["template"], text, request["names"])
            for name, text in (("plain", QUESTION), ("spaced", SPACED))
        }
    except Exception as error:  # noqa: BLE001 - a hostile program ran: whatever it raised is its own
        answer = {"error": f"{type(error).__name__}: {error}"[:_ERROR_CHARS_MAX]}
    print(json.dumps(answer))


def _limit() -> None:
    from jinja2 import sandbox  # noqa: F401 - loaded before memory is short

    for kind, most in (
        (resource.RLIMIT_CPU, _CPU_S),
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):  # macOS has no limit on addresses; time is limited there as well
            continue


def _rendered(template: str, question: str, names: dict[str, str]) -> str:
    parts, size = [], 0
    program = _environment().from_string(template)
    values = {
        **names,
        "messages": [{"role": "user", "content": question}],
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
        "enable_thinking": False,
    }
    for part in program.generate(values):
        parts.append(part)
        size += len(part)
        if size > RENDERED_CHARS_MAX:
            raise ValueError(f"it makes more than {RENDERED_CHARS_MAX} characters")
    return "".join(parts)


def _environment() -> "Environment":
    """The environment for which templates of the transformers library are written."""
    from jinja2 import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what an assistant says, for trainers; here it changes nothing."""

        tags = {"generation"}  # noqa: RUF012 - Jinja's own way to name it

        def parse(self, parser: "Parser") -> "Node | list[Node]":
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def fail(message: str) -> NoReturn:
        raise TemplateError(message)

    def as_json(
        value: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = as_json
    environment.globals["raise_exception"] = fail
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


if __name__ == "__main__":
    main()
