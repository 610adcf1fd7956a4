"""Zygotes on machines that lack something; each is a module of its own, as the service starts it by name."""
