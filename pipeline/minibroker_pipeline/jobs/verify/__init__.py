"""Looking for damage in directories of logs, and saying what to do about it. Nothing is changed."""

from minibroker_pipeline.jobs.verify.findings import Finding, What
from minibroker_pipeline.jobs.verify.job import VerifyReport, VerifySettings, verify

__all__ = ["Finding", "VerifyReport", "VerifySettings", "What", "verify"]
