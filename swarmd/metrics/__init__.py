"""The node's Prometheus metrics."""

from swarmd.metrics.mirror import CounterMirror
from swarmd.metrics.registry import Metrics

__all__ = ["CounterMirror", "Metrics"]
