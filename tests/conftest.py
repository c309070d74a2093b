"""One profile for every property test: the same examples each time, on slow machines too."""

from hypothesis import settings

settings.register_profile("drpu", deadline=None, derandomize=True, database=None)
settings.load_profile("drpu")
