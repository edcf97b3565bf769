"""Looks for damage in log directories and suggests remedies, without changing anything."""

from minibroker_pipeline.jobs.verify.findings import Finding, Kind
from minibroker_pipeline.jobs.verify.job import VerifyReport, VerifySettings, verify

__all__ = ["Finding", "Kind", "VerifyReport", "VerifySettings", "verify"]
