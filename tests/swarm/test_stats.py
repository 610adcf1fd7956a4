"""What the network process counts, and the metrics' closed sets of the same things."""

from swarmd.metrics.labels import DIALS, REFUSALS
from swarmd.swarm import stats
from swarmd.swarm.dial import Dialled
from swarmd.swarm.hardening import HOST_COUNTERS


def test_the_labels_are_what_can_be_counted():
    assert set(DIALS) == {result.value for result in Dialled}
    assert set(REFUSALS) == set(stats.REFUSALS)
    assert set(stats.REFUSALS.values()) <= set(HOST_COUNTERS)
