"""The optimizers an update can step with; each owns the master weights and its own state. docs/memory-plans.md has their bytes."""
