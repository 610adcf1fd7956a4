"""What a group of settings is."""

import unicodedata
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, field_validator

# Control characters, NUL among them, and halves of surrogate pairs: no path, address or name of ours holds one.
_NO_TEXT = frozenset({"Cc", "Cs"})


class Section(BaseModel):
    """A group of settings; unknown keys are errors."""

    # a text that looks like a number, such as a swarm's name, came as a number out of JSON
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, coerce_numbers_to_str=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_plain_text(cls, value: object) -> object:
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(text, str) and any(unicodedata.category(letter) in _NO_TEXT for letter in text):
                raise ValueError("it holds a control character, or bytes that are not UTF-8")
        return value


def listed(value: object) -> object:
    """One text with commas is a list."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


Listed = Annotated[tuple[str, ...], BeforeValidator(listed)]
