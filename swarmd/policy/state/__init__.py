"""State on disk: weights, checkpoints, exports."""
