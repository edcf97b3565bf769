"""Logs from one message format, codec or size of batches to another."""

from minibroker_pipeline.jobs.convert.job import convert
from minibroker_pipeline.jobs.convert.settings import (
    ConvertCounts,
    ConvertError,
    ConvertLine,
    ConvertReport,
    ConvertSettings,
)

__all__ = ["ConvertCounts", "ConvertError", "ConvertLine", "ConvertReport", "ConvertSettings", "convert"]
