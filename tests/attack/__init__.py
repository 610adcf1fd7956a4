"""Hostile peers against a swarm of real nodes: `python -m tests.attack`. The suite holds only tests of its pieces."""
