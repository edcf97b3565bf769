"""Looks for damage in log directories and suggests remedies, without changing anything."""

from minibroker_pipeline.jobs.verify.findings import Finding, What
from minibroker_pipeline.jobs.verify.job import VerifyReport, VerifySettings, verify

__all__ = ["Finding", "VerifyReport", "VerifySettings", "What", "verify"]
