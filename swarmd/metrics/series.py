"""Series: what makes metrics of one registry, each series from the start where the label sets are closed."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)

Metric = TypeVar("Metric", Counter, Gauge)


class Series:
    """Metrics of `registry`. Label names without values are positional; labels with a closed set of values are keywords."""

    registry: CollectorRegistry

    def _counter(self, name: str, text: str, *names: str, **values: Iterable[str]) -> Counter:
        found = Counter(f"swarmd_{name}", text, (*names, *values), registry=self.registry)
        return _with_series(found, values)

    def _gauge(self, name: str, text: str, *names: str, **values: Iterable[str]) -> Gauge:
        found = Gauge(f"swarmd_{name}", text, (*names, *values), registry=self.registry)
        return _with_series(found, values)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...] = SECONDS_BUCKETS) -> Histogram:
        return Histogram(f"swarmd_{name}", text, buckets=buckets, registry=self.registry)


def _with_series(metric: Metric, values: Mapping[str, Iterable[str]]) -> Metric:
    """The metric with every series that its closed label sets allow, so that rates work from the first event."""
    for combination in product(*values.values()) if values else ():
        metric.labels(*combination)
    return metric
