"""The update: a round's rollouts to one optimizer step."""
