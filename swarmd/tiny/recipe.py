"""The recipe of the embedded policy; loads nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the bytes of the result, besides the code and the machine."""

    seed: int = 0
    num_steps: int = 2500
    num_examples: int = (
        12_000  # per dataset, before training; the smallest task has some 400 different questions
    )
    batch_size: int = 128
    learning_rate: float = 3e-3  # with AdamW and a warm-up of 5 %; 1e-2 diverges at times
    hidden_size: int = 128
    num_layers: int = 3
    head_dim: int = 32  # vLLM's CPU attention accepts 32, 64, ... and dies at 16
    manner_tokens: bool = (
        True  # a token for each constant piece of the manners; else they are spelled in bytes
    )
