"""The optimizers an update can step with; each owns the master weights and its own state."""
