"""Spark's daemon of Python workers, which imports packages once, before it makes workers by a fork."""

import gc
from contextlib import suppress

from pyspark.daemon import manager

with suppress(ImportError):  # a Python without these packages fails in its workers, as it does for users
    import lightgbm  # noqa: F401
    import pandas  # noqa: F401

    import drpu.classifier.drpu
    import drpu.models.trees  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # workers search for garbage after each task
    manager()
