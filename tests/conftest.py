"""Settings every test shares."""

from hypothesis import settings

# The same examples on every run and every machine, and no failure because a machine was busy.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
