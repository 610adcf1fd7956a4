"""Typed calls to the child processes: a module a child, with its operations, what they take and what they answer."""
