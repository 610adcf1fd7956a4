"""The model: text to tokens, generation, the update, weights and checkpoints. Plain blocking code."""
