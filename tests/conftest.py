"""For all tests: hypothesis judges what a test does and not how long a busy machine takes for it."""

from hypothesis import HealthCheck, settings

settings.register_profile("no-clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no-clock")
