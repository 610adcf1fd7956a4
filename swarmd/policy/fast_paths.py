"""Fast paths of sampling and of the update: their tolerance, how models refuse them, and the attention they do not reproduce."""

from collections.abc import Mapping

import torch

# Relative difference that two orders of summation explain. Wrong positions, masks or heads are off by 0.1 and more; an
# architecture's soft caps and logit scales by 0.01 and more.
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.bfloat16: 8e-2, torch.float16: 2e-2}

# Exceptions of architectures at arguments, layouts or caches that they do not know.
REFUSALS = (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError, NotImplementedError)

# Keyword arguments that change attention in ways no fast path reproduces. Soft caps are among them: transformers applies them in
# some of its implementations and not in others.
_FOREIGN_TERMS = ("softcap", "s_aux", "position_bias", "cache")


class UnsupportedAttention(ValueError):
    """The model's attention or cache has a term that a fast path would silently drop."""


def refuse_foreign_terms(terms: Mapping[str, object]) -> None:
    """Raises UnsupportedAttention when an architecture passes a term to attention that no fast path reproduces."""
    for name in _FOREIGN_TERMS:
        if terms.get(name) is not None:
            raise UnsupportedAttention(f"attention uses {name}")
