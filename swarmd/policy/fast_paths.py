"""What every check of a fast path against the plain one needs to know: the difference that is none, and how models refuse."""

import torch

# Relative difference that two orders of summation explain. Wrong positions, masks or heads are off by 0.1 and more; an
# architecture's soft caps and logit scales by 0.01 and more.
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.bfloat16: 8e-2, torch.float16: 2e-2}

# What architectures answer to arguments, layouts or caches they do not know.
REFUSALS = (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError, NotImplementedError)
