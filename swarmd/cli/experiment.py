"""`swarmd experiment`: controlled comparisons of ways to share, and their reports."""

import click


@click.group()
def experiment() -> None:
    """Compare ways to share, under control: the same seeds, the same questions, one difference."""
