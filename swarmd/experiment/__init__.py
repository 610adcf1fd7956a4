"""Controlled runs of real nodes on one machine, and their reports."""
