# The door of the package: the names that other packages use.

from .boosted import BoostedFunction as BoostedFunction

__all__: list[str]
