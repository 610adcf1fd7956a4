"""A model's chat template, which is a program of whoever made the model: run once, elsewhere, and never again.

A process of its own renders a few questions with little memory and time. The node keeps the text that the template puts before
and after a question, and nothing else. So no template sees the questions of a run, or takes time or memory from the node.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from swarmd.errors import ModelUnavailable

# Marks of all kinds, so that a template that changes or escapes some of them is noticed; none would have it among its own words.
QUESTION = 'Which is it: "3 < 4" & {one}?\n\tSay <answer>so</answer>, it\'s a probe — naïve.'
SPACED = f" \n\t{QUESTION} \n\n"
# The longest templates of public models have some 20,000 characters, and put a few thousand around a question.
TEMPLATE_CHARS_MAX = 256 * 1024
RENDERED_CHARS_MAX = 64 * 1024
# A template takes a millisecond. The process around it starts within half a second, on a busy machine within several.
DEADLINE_S = 60.0


@dataclass(frozen=True)
class ChatFrame:
    """The text that a chat template puts around one user turn.

    Attributes:
        before, after: the text on either side.
        trims: whether white space at the ends of the question is dropped.
    """

    before: str
    after: str
    trims: bool

    def around(self, question: str) -> str:
        """The text of a prompt."""
        return f"{self.before}{question.strip() if self.trims else question}{self.after}"


def read_frame(template: str, tokens: Mapping[str, object]) -> ChatFrame:
    """Run a chat template on two questions, and see what it does with them. `tokens` may be named in it: `bos_token` and the like.

    Raises:
        ModelUnavailable: it fails, takes too long or too much, makes too much, or does not hand the question on as it is.
    """
    if len(template) > TEMPLATE_CHARS_MAX:
        raise _refused(f"it has {len(template)} characters, and the limit is {TEMPLATE_CHARS_MAX}")
    names = {name: str(value) for name, value in tokens.items() if not isinstance(value, list | dict)}
    return _read(json.dumps({"template": template, "names": names}))


@cache
def _read(request: str) -> ChatFrame:
    plain, spaced = _render(request)
    before, found, after = plain.partition(QUESTION)
    if not found or QUESTION in after:
        raise _refused("it does not hand a question on once and as it is")
    if spaced not in (plain, f"{before}{SPACED}{after}"):
        raise _refused("it treats questions differently")
    try:
        (before + after).encode()
    except UnicodeEncodeError:  # no tokenizer takes it: every prompt of a run would fail
        raise _refused("it makes half a surrogate pair, which is no text") from None
    return ChatFrame(before, after, trims=spaced == plain)


def _render(request: str) -> tuple[str, str]:
    command = [sys.executable, "-I", "-m", "swarmd.policy.model.template_child"]
    try:
        ran = subprocess.run(
            command, input=request.encode(), capture_output=True, timeout=DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _refused(f"it did not end within {DEADLINE_S:.0f} s") from None
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        raise _refused("it took more time or memory than a template needs") from None
    if "error" in answer:
        raise _refused(answer["error"])
    return answer["plain"], answer["spaced"]


def _refused(why: str) -> ModelUnavailable:
    return ModelUnavailable("the model's chat template cannot be used", why, "take another model, or mend it")
