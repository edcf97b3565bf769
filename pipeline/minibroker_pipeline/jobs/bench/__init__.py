"""The speed of reading log files as tables and of checking them, beside Spark's Kafka connector on the same records."""

from minibroker_pipeline.jobs.bench.job import BenchSettings, bench
from minibroker_pipeline.jobs.bench.report import BenchReport, Sample

__all__ = ["BenchReport", "BenchSettings", "Sample", "bench"]
