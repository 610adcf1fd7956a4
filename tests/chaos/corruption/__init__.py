"""Damage to every file of a real data directory, and what a real node then does."""
