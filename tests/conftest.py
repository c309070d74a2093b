"""One Hypothesis profile for all tests: the same examples in every run, no deadline."""

from hypothesis import settings

settings.register_profile("drpu", max_examples=50, deadline=None, derandomize=True, database=None)
settings.load_profile("drpu")
