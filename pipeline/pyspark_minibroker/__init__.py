"""Where Spark finds `format("minibroker")`: it imports the top-level packages whose names begin with `pyspark_`."""

from minibroker_pipeline.source import MinibrokerDataSource as DefaultSource

__all__ = ["DefaultSource"]
