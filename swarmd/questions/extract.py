"""Find the answer in a completion, in time linear in its length.

The result is that of reasoning_gym's `utils.extract_answer`, whose regular expression is quadratic: a peer could keep it busy for
seconds with 100 kB of `<answer>`.
"""

from typing import Literal

AnswerFormat = Literal["tags", "plain"]

# Bytes of a completion. One of 2,048 tokens has about 8 kB.
COMPLETION_BYTES_MAX = 16_384
ANSWER_CHARS_MAX = 20_000

_OPEN, _CLOSE = "<answer>", "</answer>"


def extract_answer(completion: str, answer_format: AnswerFormat) -> str | None:
    """The answer within `completion`, stripped; None when the tags format finds no closed pair.

    `tags`: the text of the last `<answer>...</answer>`, pairs read from the left without overlap. `plain`: the whole text.
    """
    if answer_format == "plain":
        return completion.strip()
    start, answer = 0, None
    while (opened := completion.find(_OPEN, start)) >= 0:
        closed = completion.find(_CLOSE, opened + len(_OPEN))
        if closed < 0:
            break
        answer = (opened + len(_OPEN), closed)
        start = closed + len(_CLOSE)
    return None if answer is None else completion[slice(*answer)].strip()


def answer_chars_max(oracle: str | None, without_oracle: int | None = None) -> int:
    """The longest answer that is scored, in characters. Rules search the answer, and parsers build numbers from it."""
    if oracle is None and without_oracle is not None:
        return without_oracle
    return min(ANSWER_CHARS_MAX, 4 * len(oracle or "") + 128)


def fits(completion: str) -> bool:
    """Whether the completion is at most `COMPLETION_BYTES_MAX` bytes of valid UTF-8 (lone surrogates are not)."""
    if len(completion) > COMPLETION_BYTES_MAX:
        return False
    try:
        return len(completion.encode()) <= COMPLETION_BYTES_MAX
    except UnicodeEncodeError:
        return False
