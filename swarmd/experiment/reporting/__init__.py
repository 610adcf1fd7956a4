"""From finished cells to curves, comparisons, verdicts, plots and texts."""
