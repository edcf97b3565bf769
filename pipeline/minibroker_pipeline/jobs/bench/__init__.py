"""How fast log files are read as tables and looked over, beside Spark's Kafka connector on the same records."""

from minibroker_pipeline.jobs.bench.job import BenchSettings, bench
from minibroker_pipeline.jobs.bench.report import BenchReport, Sample

__all__ = ["BenchReport", "BenchSettings", "Sample", "bench"]
