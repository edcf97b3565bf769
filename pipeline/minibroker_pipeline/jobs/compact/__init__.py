"""Log compaction of whole directories into new ones, many segments at a time, without a broker."""

from minibroker_pipeline.jobs.compact.job import compact
from minibroker_pipeline.jobs.compact.reading import LogChangedError
from minibroker_pipeline.jobs.compact.report import CompactedLog, CompactReport
from minibroker_pipeline.jobs.compact.settings import CompactSettings

__all__ = ["CompactReport", "CompactSettings", "CompactedLog", "LogChangedError", "compact"]
