"""PySpark's daemon, which forks workers, after it has imported what most of them import."""

import gc
from importlib import import_module

from pyspark.daemon import manager

for name in ("minibroker_pipeline.decode.numba_engine", "minibroker_pipeline.source.reading"):
    import_module(name)
gc.freeze()  # A worker collects all garbage after each task.
manager()
