"""Registers the data source for `format("minibroker")`.

Spark finds it because Spark imports every top-level package whose name begins with `pyspark_`.
"""

from minibroker_pipeline.source import MinibrokerDataSource as DefaultSource

__all__ = ["DefaultSource"]
