"""Figures of a source tree: how large it is, how long its parts are, how much of it is untyped, what imports in a circle."""
