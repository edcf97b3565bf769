"""Converts logs to another message format, codec or batch size."""

from minibroker_pipeline.jobs.convert.job import convert
from minibroker_pipeline.jobs.convert.settings import (
    ConvertCounts,
    ConvertError,
    ConvertLine,
    ConvertReport,
    ConvertSettings,
)

__all__ = ["ConvertCounts", "ConvertError", "ConvertLine", "ConvertReport", "ConvertSettings", "convert"]
