"""What a group of settings is."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of settings; unknown keys are errors."""

    # a text that looks like a number, such as a swarm's name, came as a number out of JSON
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, coerce_numbers_to_str=True)


def listed(value: Any) -> Any:
    """One text with commas is a list."""
    return (
        tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    )
